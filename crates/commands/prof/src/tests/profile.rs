//! Profiles in every form.

use super::sampled;
use super::schema_check::{follows, validator};
use super::schema_file;
use crate::output::{push_profile, write_flame, write_folded};
use serde_json::Value as Json;
use sockeye_output::{ChartFormat, Format, ReportLayout, push_report};
use sockeye_profile::{Difference, Partial, Profile, ReportOptions, StackKind};
use std::time::{Duration, Instant};

const PROF: &str = include_str!("../../../../../docs/schema/prof.schema.json");
const DIFF: &str = include_str!("../../../../../docs/schema/prof-diff.schema.json");

fn rendered(profile: &Profile, view: &ReportOptions, format: Format, width: Option<usize>) -> String {
    let mut out = Vec::new();
    let layout = ReportLayout {
        format,
        width,
        ..ReportLayout::default()
    };
    push_profile(&mut out, profile, view, layout);
    String::from_utf8(out).unwrap()
}

#[test]
fn json_follows_schema() {
    let whole = validator(PROF, None);
    let (line, last) = (
        validator(PROF, Some("line")),
        validator(PROF, Some("summary_line")),
    );
    let mut partial = sampled::rich();
    partial.partial = Some(Partial {
        code: "interrupted".to_owned(),
        text: "interrupted".to_owned(),
    });
    let empty = Profile {
        schema_version: Profile::SCHEMA_VERSION,
        ..Profile::default()
    };
    for profile in [sampled::rich(), sampled::hostile(), partial, empty] {
        let text = rendered(&profile, &ReportOptions::default(), Format::Json, None);
        follows(&whole, &text);
        assert_eq!(Profile::from_json(text.as_bytes()).unwrap(), profile);
        let lines = rendered(&profile, &ReportOptions::default(), Format::Jsonl, None);
        let (rows, summary) = match lines.trim_end().rsplit_once('\n') {
            Some((rows, summary)) => (rows, summary),
            None => ("", lines.trim_end()),
        };
        for row in rows.lines() {
            follows(&line, row);
        }
        follows(&last, summary);
        harmless(&text);
        harmless(&lines);
    }
}

#[test]
fn every_key_is_in_the_schema_with_its_unit() {
    let schema = schema_file::load(PROF);
    let defs = &schema["$defs"];
    let mut objects = vec![&schema];
    objects.extend(defs.as_object().unwrap().values());
    for object in objects {
        let Some(properties) = object["properties"].as_object() else {
            continue;
        };
        for (key, field) in properties {
            let has = |field: &Json| field["description"].as_str().is_some_and(|text| !text.is_empty());
            let target = field["$ref"]
                .as_str()
                .and_then(|name| name.strip_prefix("#/$defs/"));
            assert!(has(field) || target.is_some_and(|name| has(&defs[name])), "{key}");
            if field["type"] == "integer" || field["type"] == "number" {
                assert!(field["description"].as_str().unwrap().contains("Unit: "), "{key}");
            }
        }
    }
    // Objects allow no other keys, so that a new field of the profile fails the test above.
    assert_eq!(schema["additionalProperties"], false);
}

#[track_caller]
fn harmless(text: &str) {
    let bad = |character: char| {
        character.is_control() && character != '\n' && character != '\r' || character == '\u{202e}'
    };
    assert!(!text.contains(bad), "{text:?}");
}

#[test]
fn table_fits_width_and_has_sentences() {
    let profile = sampled::rich();
    for width in [0, 1, 20, 60, 80, 120, 300] {
        let text = rendered(&profile, &ReportOptions::default(), Format::Table, Some(width));
        assert!(text.contains("recvmsg"), "{width}");
    }
    let text = rendered(&profile, &ReportOptions::default(), Format::Table, Some(80));
    let first = text.find("waiting for the network").unwrap();
    let calls = text.find("\nsyscalls\n").unwrap();
    let meaning = text.find("opened").unwrap();
    assert!(first < calls && calls < meaning, "{text}");
    for line in text.lines().filter(|line| !line.contains("alloc::")) {
        assert!(line.chars().count() <= 80, "{line}");
    }
    for (code, words) in [
        ("loss", "Lost: up to 3 samples"),
        ("missing", "kprobes need CAP_SYS_ADMIN"),
        ("overhead", "1.31us a call"),
        ("missed", "2 calls of watched functions never returned"),
    ] {
        assert!(text.replace("\n  ", " ").contains(words), "{code}: {text}");
    }
    harmless(&rendered(
        &sampled::hostile(),
        &ReportOptions::default(),
        Format::Table,
        Some(80),
    ));
}

#[test]
fn rows_limits_tables_and_by_process_adds_columns() {
    let few = ReportOptions {
        rows: 2,
        by_process: true,
        ..ReportOptions::default()
    };
    let text = rendered(&sampled::rich(), &few, Format::Table, None);
    assert!(text.contains("4711  tunnel   recvmsg"), "{text}");
    assert!(!text.contains("sendto  "), "{text}");
    assert!(
        text.contains("Left out: 6 system calls (3.75s, 31 %); 4 kinds of waits"),
        "{text}"
    );
    let all = ReportOptions {
        rows: 0,
        ..ReportOptions::default()
    };
    assert!(!rendered(&sampled::rich(), &all, Format::Table, None).contains("Left out"));
}

#[test]
fn csv_has_first_table_unshortened() {
    let all = ReportOptions {
        rows: 0,
        ..ReportOptions::default()
    };
    let text = rendered(&sampled::rich(), &all, Format::Csv, None);
    let mut lines = text.lines();
    assert_eq!(
        lines.next().unwrap(),
        "time,call,calls,errors,total_ns,share_permille,mean_ns,max_ns,unfinished,timed,errnos"
    );
    assert_eq!(lines.count(), 8);
    let mut waits = sampled::rich();
    waits.syscalls = None;
    let text = rendered(&waits, &all, Format::Csv, None);
    assert!(
        text.starts_with(
            "time,reason,call,count,total_ns,share_permille,mean_ns,max_ns,unfinished,object,function,kernel_function"
        ),
        "{text}"
    );
    // Not shortened.
    assert!(
        text.contains(
            "<alloc::collections::btree::map::BTreeMap<K,V,A> as core::ops::drop::Drop>::drop_slow"
        )
    );
}

#[test]
fn differences_are_harmless_and_follow_schema() {
    let (a, mut b) = (sampled::rich(), sampled::hostile());
    b.duration_ns /= 3;
    for (a, b) in [(&a, &a), (&a, &b), (&b, &a)] {
        for for_eyes in [true, false] {
            let difference = Difference {
                a_name: "a.json",
                a,
                b_name: "b\x1b.json",
                b,
                rows: 0,
                for_eyes,
            };
            let mut out = Vec::new();
            let format = if for_eyes { Format::Table } else { Format::Json };
            let layout = ReportLayout {
                format,
                ..ReportLayout::default()
            };
            push_report(&mut out, &difference.report(), layout);
            let text = String::from_utf8(out).unwrap();
            harmless(&text);
            if !for_eyes {
                let value = follows(&validator(DIFF, None), &text);
                assert_eq!(value["prof"], "diff");
                let mut out = Vec::new();
                let layout = ReportLayout {
                    format: Format::Jsonl,
                    ..layout
                };
                push_report(&mut out, &difference.report(), layout);
                let lines = String::from_utf8(out).unwrap();
                for line in lines.lines() {
                    follows(&validator(DIFF, Some("line")), line);
                }
            }
        }
    }
}

fn folded(profile: &Profile, which: StackKind) -> String {
    let mut out = Vec::new();
    write_folded(&mut out, profile, which).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn folded_stacks_are_sorted_and_unique() {
    let text = folded(&sampled::rich(), StackKind::Cpu);
    assert!(
        text.contains("tunnel;main;event_loop;encrypt;BF_cfb64_encrypt 41\n"),
        "{text}"
    );
    assert!(text.contains(";write;ksys_write_[k];native_queued_spin_lock_slowpath_[k] 48\n"));
    assert!(text.contains("tunnel-worker;[no stack] 4\n"));
    let waits = folded(&sampled::rich(), StackKind::Waits);
    assert!(waits.contains("tunnel;main;encrypt 420000\n"), "{waits}");
    assert_eq!(folded(&Profile::default(), StackKind::Cpu), "");
    for profile in [sampled::rich(), sampled::hostile(), sampled::many(5_000)] {
        let text = folded(&profile, StackKind::Cpu);
        let mut sorted: Vec<&str> = text.lines().collect();
        sorted.sort_unstable();
        let before = sorted.len();
        sorted.dedup_by_key(|line| line.rsplit_once(' ').unwrap().0);
        assert_eq!(sorted.len(), before, "each stack once");
        assert_eq!(text.lines().collect::<Vec<_>>(), sorted);
        let sum: u64 = sorted
            .iter()
            .map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap())
            .sum();
        assert_eq!(sum, profile.cpu.as_ref().unwrap().samples);
        harmless(&text);
    }
}

fn drawn(profile: &Profile, which: StackKind) -> String {
    let mut out = Vec::new();
    write_flame(&mut out, profile, which, ChartFormat::Svg).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn flame_graph_has_boxes_titles_and_losses() {
    let svg = drawn(&sampled::rich(), StackKind::Cpu);
    for text in [
        ">CPU by function: pid 4711</text>",
        ">10.004 s, 525 samples, 99 a second asked for, 3 lost</text>",
        "<title>BF_encrypt · libcrypto.so.3 · 320 samples, 61.0 %</title>",
        "<title>tunnel · process · 475 samples, 90.5 %</title>",
        ">BF_encrypt</text>",
        "prefers-color-scheme:dark",
    ] {
        assert!(svg.contains(text), "{text} in {svg}");
    }
    assert_eq!(svg, drawn(&sampled::rich(), StackKind::Cpu), "the same again");
    let waits = drawn(&sampled::rich(), StackKind::Waits);
    assert!(
        waits.contains("<title>read_reply · tunnel · 6.4s, 63.5 %</title>"),
        "{waits}"
    );
    let nothing = drawn(&Profile::default(), StackKind::Cpu);
    assert!(nothing.contains("there are no such stacks"), "{nothing}");
    for which in [StackKind::Cpu, StackKind::Waits] {
        let mut png = Vec::new();
        write_flame(&mut png, &sampled::rich(), which, ChartFormat::Png).unwrap();
        assert!(png.starts_with(b"\x89PNG\r\n\x1a\n") && png.ends_with(b"IEND\xaeB`\x82"));
    }
}

#[test]
fn hostile_names_stay_text() {
    for which in [StackKind::Cpu, StackKind::Waits] {
        let svg = drawn(&sampled::hostile(), which);
        // One script, ours; one end of it.
        assert_eq!(svg.matches("<script").count(), 1);
        assert_eq!(svg.matches("]]>").count(), 1);
        assert!(!svg.contains("alert(1)</script"), "{svg}");
        harmless(&svg);
        // As many ends as beginnings.
        for tag in ["g", "title", "text"] {
            let begins = svg.matches(&format!("<{tag} ")).count() + svg.matches(&format!("<{tag}>")).count();
            assert_eq!(begins, svg.matches(&format!("</{tag}>")).count(), "{tag}");
        }
    }
}

#[test]
fn flame_graph_of_many_stacks_is_fast_and_small() {
    let profile = sampled::many(50_000);
    let begin = Instant::now();
    let svg = drawn(&profile, StackKind::Cpu);
    let lines = folded(&profile, StackKind::Cpu).lines().count();
    // An optimised build takes 0.1 s; this one is not, and the machine may be busy.
    assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
    assert!(lines > 45_000, "{lines}");
    assert!(
        svg.len() < 4_000_000 && svg.contains("too narrow to be seen"),
        "{}",
        svg.len()
    );
}

/// Returns the height of a picture, in pixels.
fn height(svg: &str) -> u32 {
    let (_, rest) = svg.split_once(" height=\"").unwrap();
    rest.split_once('"').unwrap().0.parse().unwrap()
}

#[test]
fn flame_graph_of_one_bogus_deep_stack_stays_small() {
    // The deep stack alone, and among others of which it is a small part
    for others in [false, true] {
        let mut profile = sampled::rich();
        let usual = height(&drawn(&profile, StackKind::Cpu));
        profile.frames = (0..200)
            .map(|nth| sockeye_profile::Frame {
                function: Some(format!("bogus_{nth}")),
                ..sockeye_profile::Frame::default()
            })
            .collect();
        let cpu = profile.cpu.as_mut().unwrap();
        let mut bogus = cpu.stacks[0].clone();
        bogus.stack = (0..100).collect();
        if others {
            bogus.samples = cpu.samples / 20;
            for one in &mut cpu.stacks {
                one.stack = (150..155).collect();
            }
        } else {
            cpu.stacks.clear();
        }
        cpu.stacks.push(bogus);
        let svg = drawn(&profile, StackKind::Cpu);
        assert!(height(&svg) < usual.max(520), "{} {usual}", height(&svg));
        assert!(
            svg.contains("functions, each called only by the one below: "),
            "{svg}"
        );
        assert!(
            svg.contains("functions without a branch are drawn as a few grey boxes"),
            "{svg}"
        );
        // Both ends of the stack are shown.
        for end in ["<title>bogus_0 ·", "<title>bogus_99 ·"] {
            assert!(svg.contains(end), "{end} in {svg}");
        }
    }
}

#[test]
fn flame_graph_has_at_most_300_rows() {
    let mut profile = sampled::rich();
    let cpu = profile.cpu.as_mut().unwrap();
    // Each stack ends one function above the one before: nothing is without a branch.
    let one = cpu.stacks[0].clone();
    cpu.stacks = (1..400)
        .map(|depth| sockeye_profile::CpuStack {
            stack: vec![0; depth],
            ..one.clone()
        })
        .collect();
    let svg = drawn(&profile, StackKind::Cpu);
    assert!(svg.contains("1 deeper than 300 rows"), "{}", &svg[..3000]);
}

#[test]
fn flame_graph_cuts_deep_stacks() {
    let mut profile = sampled::rich();
    if let Some(cpu) = &mut profile.cpu {
        cpu.stacks[0].stack = vec![0; 100_000];
    }
    let svg = drawn(&profile, StackKind::Cpu);
    assert!(svg.contains(", 1 stacks cut"), "{}", &svg[..3000]);
    assert!(folded(&profile, StackKind::Cpu).contains(";[deeper] 320\n"));
}
