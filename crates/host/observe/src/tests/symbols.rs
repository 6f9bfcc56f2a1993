//! Compares names of addresses with nm's, for real programs that run.
mod program;

use self::program::{Folder, Running, addresses, code_mappings, compile, offset, ran, segments};
use crate::{FileNumber, Mapping, Symbols};
use sockeye_lab::{Skip, need, program as installed};
use sockeye_profile::Space;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::Path;
use std::process::Command;

/// Local and global functions, an alias, assembly without a size, and calls of another library.
const C: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
__attribute__((noinline)) static int hidden(int x) { __asm__ volatile(""); return x * 3; }
__attribute__((noinline)) int visible(int x) { __asm__ volatile(""); return hidden(x) + 1; }
int also_visible(int) __attribute__((weak, alias("visible")));
__asm__(".text\n.globl by_hand\nby_hand:\n nop\n nop\n ret\n");
int by_hand(void);
int main(int argc, char **argv) {
    void *volatile memory = malloc(visible(argc));
    free(memory);
    by_hand();
    printf("ready %d\n", argc);
    fflush(stdout);
    char byte;
    return read(0, &byte, 1) < 0;
}
"#;

const CPP: &str = r#"
#include <cstdio>
#include <unistd.h>
namespace shapes {
struct Circle { __attribute__((noinline)) double area(double r) const; };
double Circle::area(double r) const { return r * r * 3; }
template <class T> __attribute__((noinline)) T twice(T x) { return x + x; }
}
int main(int argc, char **) {
    printf("ready %f %d\n", shapes::Circle().area(argc), shapes::twice<int>(argc));
    fflush(stdout);
    char byte;
    return read(0, &byte, 1) < 0;
}
"#;

const RUST: &str = r#"
mod inner {
    pub struct Tide;
    impl Tide {
        #[inline(never)]
        pub fn height(&self, x: usize) -> usize { std::hint::black_box(x) * 3 }
    }
    #[inline(never)]
    pub fn generic<T: std::fmt::Debug>(x: T) -> usize { format!("{x:?}").len() }
}
fn main() {
    let x = std::env::args().count();
    println!("ready {} {}", inner::Tide.height(x), inner::generic("a"));
    let _ = std::io::stdin().read_line(&mut String::new());
}
"#;

const GO: &str = r#"
package main
import ("bufio"; "fmt"; "os")
type tide struct{ n int }
//go:noinline
func (t *tide) height(x int) int { return t.n*x + len(os.Args) }
func main() {
    fmt.Println("ready", (&tide{3}).height(4))
    bufio.NewReader(os.Stdin).ReadString('\n')
}
"#;

const MAKER: &str = r#"
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
int main(void) {
    void *code = mmap(0, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    printf("ready %d %p\n", getpid(), code);
    fflush(stdout);
    char byte;
    return read(0, &byte, 1) < 0;
}
"#;

#[test]
fn functions_of_c_match_nm() {
    let folder = Folder::new("nm");
    need!(tools(&["cc", "nm", "readelf"]));
    for (name, flags) in [
        ("pie", &["-O1"][..]),
        ("fixed", &["-O1", "-no-pie"]),
        ("static", &["-O1", "-static"]),
        ("static-pie", &["-O1", "-static-pie"]),
    ] {
        let path = compile(&folder, name, "c", C, "cc", flags);
        let all = check_against_nm(&path);
        assert_names(&all, &["visible", "also_visible", "hidden", "by_hand", "main"]);
        let (known, loaded) = (addresses(&path), segments(&path));
        let mut symbols = Symbols::new();
        let number = symbols.add_path(&path).unwrap();
        // Of two names the one that is not weak; code without a size extends to the next function.
        for (of, within, named) in [
            ("also_visible", 0, "visible"),
            ("hidden", 1, "hidden"),
            ("by_hand", 2, "by_hand"),
        ] {
            let frame = symbols.user(number, offset(&loaded, known[of] + within));
            assert_eq!(frame.function.as_deref(), Some(named), "{name}");
        }
    }
}

#[test]
fn functions_of_cpp_and_rust_match_nm() {
    let folder = Folder::new("clear");
    need!(tools(&["c++", "rustc", "nm", "readelf"]));
    let path = compile(&folder, "cpp", "cc", CPP, "c++", &["-O1"]);
    let all = check_against_nm(&path);
    assert_names(
        &all,
        &["shapes::Circle::area(double) const", "shapes::twice<int>(int)"],
    );
    let path = compile(
        &folder,
        "first",
        "rs",
        RUST,
        "rustc",
        &["-Csymbol-mangling-version=v0"],
    );
    let all = check_against_nm(&path);
    assert_names(
        &all,
        &[
            "first::main",
            "first::inner::generic::<&str>",
            "<first::inner::Tide>::height",
        ],
    );
}

#[test]
fn ended_program_has_names() {
    let folder = Folder::new("running");
    need!(tools(&["cc", "nm", "readelf"]));
    let path = compile(&folder, "plain", "c", C, "cc", &["-O1"]);
    let running = Running::start(&path);
    let mut symbols = Symbols::new();
    let mappings = add_mappings(&mut symbols, running.pid());
    drop(running);
    // The tables are read only now.
    let number = named_file(&mappings, "plain");
    for function in ["visible", "main"] {
        let frame = symbols.user(number, offset(&segments(&path), addresses(&path)[function]));
        assert_eq!(frame.function.as_deref(), Some(function));
        assert_eq!((frame.module.as_deref(), frame.offset), (Some("plain"), None));
    }
    let libc = named_file(&mappings, "libc.so");
    let memcpy = symbols
        .functions(libc)
        .find(|one| one.demangled() == "memcpy")
        .map(|one| (one.indirect, one.offset));
    let (indirect, place) = memcpy.expect("every libc has it");
    assert!(indirect, "it is selected at run time");
    let frame = symbols.user(libc, place);
    assert!(frame.function.expect("it has names").starts_with("mem"));
    assert_eq!(symbols.missing_parts(), []);
}

#[test]
fn plt_entries_are_named_by_target() {
    let folder = Folder::new("plt");
    need!(tools(&["cc", "objdump", "strip", "readelf"]));
    if !cfg!(target_arch = "x86_64") {
        return Skip::new("entries of other processors are not read").print();
    }
    for (name, flags) in [
        ("sealed", &["-fcf-protection=full"][..]),
        ("lazy", &["-fcf-protection=none", "-Wl,-z,lazy"]),
        ("fixed", &["-no-pie"]),
    ] {
        let path = compile(&folder, name, "c", C, "cc", flags);
        ran(Command::new("strip").arg(&path));
        // `0000000000001050 <malloc@plt>:`
        let listing = ran(Command::new("objdump").arg("-d").arg(&path));
        let entries: Vec<(u64, &str)> = listing
            .lines()
            .filter_map(|line| line.split_once(" <"))
            .filter_map(|(address, name)| {
                let name = name.strip_suffix("@plt>:")?;
                Some((u64::from_str_radix(address, 16).ok()?, name))
            })
            .collect();
        assert!(entries.len() >= 4, "{listing}");
        let loaded = segments(&path);
        let mut symbols = Symbols::new();
        let number = symbols.add_path(&path).unwrap();
        for (address, target) in &entries {
            let frame = symbols.user(number, offset(&loaded, address + 4));
            assert_eq!(frame.function, Some(format!("{target}@plt")), "{name}");
        }
    }
}

#[test]
fn stripped_programs_have_exported_and_debug_file_names() {
    let folder = Folder::new("stripped");
    need!(tools(&["cc", "objcopy", "strip", "nm", "readelf"]));
    for (name, id) in [("with-id", "-Wl,--build-id"), ("without", "-Wl,--build-id=none")] {
        let path = compile(&folder, name, "c", C, "cc", &["-O1", "-rdynamic", id]);
        let (known, loaded) = (addresses(&path), segments(&path));
        let debug = folder.path().join(format!("{name}.debug"));
        ran(Command::new("objcopy")
            .arg("--only-keep-debug")
            .args([&path, &debug]));
        ran(Command::new("strip").arg(&path));
        let ask = |function: &str| {
            let mut symbols = Symbols::new();
            let number = symbols.add_path(&path).unwrap();
            let place = offset(&loaded, known[function]);
            let frame = symbols.user(number, place);
            assert_eq!(frame.module.as_deref(), Some(name));
            assert_eq!(frame.offset, frame.function.is_none().then_some(place));
            frame.function
        };
        assert_eq!(ask("visible").as_deref(), Some("visible"), "it is exported");
        assert_eq!(ask("hidden"), None, "it is not");
        // The program has the name and checksum of the debug file.
        let link = format!("--add-gnu-debuglink={}", debug.display());
        ran(Command::new("objcopy").arg(link).arg(&path));
        assert_eq!(ask("hidden").as_deref(), Some("hidden"));
        let apart = folder.path().join(".debug");
        fs::create_dir_all(&apart).unwrap();
        let moved = apart.join(format!("{name}.debug"));
        fs::rename(&debug, &moved).unwrap();
        assert_eq!(
            ask("hidden").as_deref(),
            Some("hidden"),
            "in the folder for such files"
        );
        // Another file of that name is not taken.
        let wrong = C.replace("hidden", "wrong");
        let other = compile(&folder, "other", "c", &wrong, "cc", &["-O1", id]);
        fs::rename(other, &moved).unwrap();
        assert_eq!(ask("hidden"), None);
    }
}

#[test]
fn stripped_go_programs_have_names() {
    let folder = Folder::new("go");
    need!(tools(&["go", "nm", "readelf"]));
    for (name, flags) in [
        ("bare", &["-ldflags=-s -w"][..]),
        ("moved", &["-ldflags=-s -w", "-buildmode=pie"]),
    ] {
        let path = program::go(&folder, name, GO, flags);
        let running = Running::start(&path);
        let mut symbols = Symbols::new();
        let mappings = add_mappings(&mut symbols, running.pid());
        let number = named_file(&mappings, name);
        assert!(symbols.is_go(number));
        let functions: BTreeMap<String, (u64, u64)> = symbols
            .functions(number)
            .map(|one| (one.demangled().into_owned(), (one.offset, one.size)))
            .collect();
        // The same program with a symbol table gives the expected offsets.
        let whole = program::go(&folder, "whole", GO, &flags[1..]);
        let (known, loaded) = (addresses(&whole), segments(&whole));
        for function in ["main.main", "main.(*tide).height", "runtime.mallocgc"] {
            let (place, size) = functions[function];
            assert_eq!(place, offset(&loaded, known[function]), "{name}: {function}");
            for within in [0, size / 2, size - 1] {
                let frame = symbols.user(number, place + within);
                assert_eq!(frame.function.as_deref(), Some(function));
            }
        }
    }
}

#[test]
fn programs_of_32_bits_and_big_endian_are_read() {
    let folder = Folder::new("foreign");
    need!(tools(&["go", "nm", "readelf"]));
    // One compiler that has them all: of 32 bits, and big-endian.
    let path = program::go_for(&folder, "narrow", "386", GO);
    assert_names(&check_against_nm(&path), &["main.main"]);
    let path = program::go_for(&folder, "big", "s390x", GO);
    assert_names(&check_against_nm(&path), &["main.main"]);
}

#[test]
fn program_in_other_mount_namespace_has_names() {
    let folder = Folder::new("container");
    need!(tools(&[
        "cc", "unshare", "mount", "strip", "objcopy", "nm", "readelf"
    ]));
    need!(root("a mount namespace of its own"));
    if !Path::new("/usr/lib/debug").is_dir() {
        return Skip::new("no folder /usr/lib/debug to mount on").print();
    }
    let path = compile(&folder, "inside", "c", C, "cc", &["-O1", "-Wl,--build-id"]);
    let place = offset(&segments(&path), addresses(&path)["hidden"]);
    let id = program::build_id(&path);
    let (first, rest) = id.split_at(2);
    let debug = folder.path().join("inside.debug");
    ran(Command::new("objcopy")
        .arg("--only-keep-debug")
        .args([&path, &debug]));
    ran(Command::new("strip").arg(&path));
    // Its folder and that of the debug files are visible only in its mount namespace.
    let room = folder.path().join("room");
    fs::create_dir(&room).unwrap();
    let script = format!(
        "set -e; mount -t tmpfs own {room}; cp {path} {room}/inside; mount -t tmpfs own /usr/lib/debug; \
         mkdir -p /usr/lib/debug/.build-id/{first}; cp {debug} /usr/lib/debug/.build-id/{first}/{rest}.debug; \
         exec {room}/inside",
        room = room.display(),
        path = path.display(),
        debug = debug.display(),
    );
    let running = Running::of(apart(&script));
    assert!(
        !room.join("inside").exists(),
        "it has a mount namespace of its own"
    );
    let mut symbols = Symbols::new();
    let mappings = add_mappings(&mut symbols, running.pid());
    let frame = symbols.user(named_file(&mappings, "inside"), place);
    assert_eq!(
        frame.function.as_deref(),
        Some("hidden"),
        "{:?}",
        symbols.missing_parts()
    );
}

#[test]
fn deleted_program_has_names() {
    let folder = Folder::new("deleted");
    need!(tools(&["cc", "nm", "readelf"]));
    let path = compile(&folder, "removed", "c", C, "cc", &["-O1"]);
    let place = offset(&segments(&path), addresses(&path)["hidden"]);
    let running = Running::start(&path);
    fs::remove_file(&path).unwrap();
    let mut symbols = Symbols::new();
    let mappings = add_mappings(&mut symbols, running.pid());
    let number = named_file(&mappings, "removed");
    let frame = symbols.user(number, place);
    assert_eq!(
        frame.function.as_deref(),
        Some("hidden"),
        "{:?}",
        symbols.missing_parts()
    );
    assert_eq!(frame.module.as_deref(), Some("removed"));
    let same = symbols.file(number).unwrap().metadata().unwrap();
    assert_eq!(
        same.ino(),
        fs::metadata(format!("/proc/{}/exe", running.pid()))
            .unwrap()
            .ino()
    );
}

#[test]
fn replaced_file_gives_no_names() {
    let folder = Folder::new("replaced");
    need!(tools(&["cc"]));
    let path = compile(&folder, "same", "c", C, "cc", &["-O1"]);
    let running = Running::start(&path);
    let mut mapping = code_mappings(running.pid()).swap_remove(0);
    // The process has ended: only the path remains, and that is another file's.
    let aside = folder.path().join("aside");
    fs::rename(&path, &aside).unwrap();
    compile(
        &folder,
        "same",
        "c",
        &C.replace("hidden", "wrong"),
        "cc",
        &["-O1"],
    );
    drop(running);
    mapping.path = path.to_str().unwrap().into();
    let mut symbols = Symbols::new();
    let number = symbols.add_mapping(NO_PROCESS, &mapping);
    let frame = symbols.user(number, mapping.offset + 0x100);
    assert_eq!(
        (frame.function, frame.offset),
        (None, Some(mapping.offset + 0x100))
    );
    assert_eq!(frame.module.as_deref(), Some("same (deleted)"));
    assert_eq!(symbols.functions(number).count(), 0);
    let missing = symbols.missing_parts();
    assert!(
        missing
            .iter()
            .any(|one| one.part == "symbols" && one.text.contains("another file has its name now")),
        "{missing:?}"
    );
    // Once it has its name again, another process brings the names.
    fs::rename(&aside, &path).unwrap();
    assert_eq!(symbols.add_mapping(NO_PROCESS, &mapping), number);
    assert!(symbols.functions(number).count() > 3);
    assert_eq!(symbols.file_name(number), Some("same"));
    // What is no file is not even opened.
    for path in ["/dev/null", "/proc", "/nowhere/at/all", ""] {
        let mapping = Mapping {
            inode: fs::metadata(path).map_or(999_999, |meta| meta.ino()),
            path: path.into(),
            ..mapping.clone()
        };
        let number = symbols.add_mapping(NO_PROCESS, &mapping);
        assert_eq!(symbols.user(number, 5).function, None, "{path}");
        assert!(symbols.file(number).is_err(), "{path}");
    }
}

#[test]
fn same_file_has_one_number() {
    let folder = Folder::new("once");
    need!(tools(&["cc"]));
    let path = compile(&folder, "once", "c", C, "cc", &["-O1"]);
    let link = folder.path().join("again");
    fs::hard_link(&path, &link).unwrap();
    let (one, two) = (Running::start(&path), Running::start(&link));
    let mut symbols = Symbols::new();
    let first = add_mappings(&mut symbols, one.pid());
    let second = add_mappings(&mut symbols, two.pid());
    let number = named_file(&first, "once");
    assert_eq!(named_file(&second, "again"), number);
    assert_eq!(named_file(&first, "libc.so"), named_file(&second, "libc.so"));
    assert_eq!(symbols.add_path(&link).unwrap(), number, "also without a mapping");
}

#[test]
fn malformed_files_are_skipped() {
    let folder = Folder::new("broken");
    need!(tools(&["cc"]));
    let path = compile(&folder, "whole", "c", C, "cc", &["-O1", "-s", "-rdynamic"]);
    let whole = fs::read(&path).unwrap();
    let broken = folder.path().join("broken");
    let look = |content: &[u8]| {
        fs::write(&broken, content).unwrap();
        let mut symbols = Symbols::new();
        let number = symbols.add_path(&broken).unwrap();
        // Where this program has its code.
        let places = (0x1000..0x1400).step_by(9).chain([0, 0x3000, u64::MAX, 1 << 63]);
        let named = places
            .filter(|place| symbols.user(number, *place).function.is_some())
            .count();
        let _ = (symbols.is_go(number), symbols.missing_parts());
        let clear = symbols.functions(number).map(|one| one.demangled().len());
        (named, clear.filter(|len| *len > 0).count())
    };
    let (named, count) = look(&whole);
    assert!(named > 0 && count > 3, "{named} {count}");
    for len in (0..whole.len()).step_by(97) {
        look(&whole[..len]);
    }
    // With bytes changed where the headers and the symbols are; the same ones each time.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = |most: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % most as u64).unwrap()
    };
    let sections = whole.len() - 64 * 30;
    for _ in 0..600 {
        let mut changed = whole.clone();
        for _ in 0..=next(6) {
            let at = match next(3) {
                0 => next(64 + 56 * 13),
                1 => sections + next(64 * 30),
                _ => next(0x1000),
            };
            changed[at] = [0, 1, 0x7f, 0x80, 0xff][next(5)];
        }
        look(&changed);
    }
}

#[test]
fn kernel_functions_match_kallsyms() {
    need!(root("the addresses of kernel functions"));
    let text = fs::read_to_string("/proc/kallsyms").unwrap();
    let mut by_address: BTreeMap<u64, BTreeSet<&str>> = BTreeMap::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let [address, "t" | "T", name] = words[..] {
            let address = u64::from_str_radix(address, 16).unwrap();
            by_address.entry(address).or_default().insert(name);
        }
    }
    by_address.remove(&0);
    if by_address.is_empty() {
        return Skip::new("/proc/kallsyms shows no addresses here").print();
    }
    let mut symbols = Symbols::new();
    let mut compared = 0;
    for (address, names) in by_address.iter().step_by(97) {
        let frame = symbols.kernel(*address);
        let Some(name) = &frame.function else {
            let is_mark = names.contains("_etext") || names.contains("_einittext");
            assert!(is_mark, "{names:?}");
            continue;
        };
        assert!(names.contains(name.as_str()), "{address:#x}: {name} of {names:?}");
        assert_eq!(
            (frame.module.as_deref(), frame.space),
            (Some("kernel"), Space::Kernel)
        );
        compared += 1;
    }
    assert!(compared > 100, "{compared}");
    let user = symbols.kernel(0x40_0000);
    assert_eq!((user.function, user.offset), (None, Some(0x40_0000)));
}

#[test]
fn vdso_has_names() {
    let own = code_mappings(std::process::id());
    let Some(vdso) = own.iter().find(|mapping| mapping.is_vdso()) else {
        return Skip::new("no [vdso] here").print();
    };
    let mut symbols = Symbols::new();
    let number = symbols.add_mapping(std::process::id(), vdso);
    let is_named = (0..vdso.end - vdso.start)
        .step_by(16)
        .filter_map(|place| symbols.user(number, place).function)
        .any(|name| name.contains("clock_gettime"));
    assert!(is_named);
    assert_eq!(symbols.user(number, 0).module.as_deref(), Some("[vdso]"));
    // A 32-bit process has another vDSO.
    let narrow = Mapping {
        start: 0xf7f0_0000,
        end: 0xf7f0_2000,
        ..vdso.clone()
    };
    let mut symbols = Symbols::new();
    let number = symbols.add_mapping(std::process::id(), &narrow);
    assert_eq!(symbols.user(number, 0x800).function, None);
}

#[test]
fn jit_code_is_named_by_perf_map() {
    let folder = Folder::new("made");
    need!(tools(&["cc", "unshare", "mount"]));
    need!(root("a mount namespace of its own"));
    let path = compile(&folder, "maker", "c", MAKER, "cc", &[]);
    // It has a /tmp of its own.
    let script = format!(
        "set -e; mount -t tmpfs own /run; cp {} /run/maker; mount -t tmpfs own /tmp; exec /run/maker",
        path.display()
    );
    let running = Running::of(apart(&script));
    let words: Vec<&str> = running.line().split_whitespace().collect();
    let code = u64::from_str_radix(words[2].trim_start_matches("0x"), 16).unwrap();
    let mut symbols = Symbols::new();
    let mappings = add_mappings(&mut symbols, running.pid());
    let (mapping, number) = mappings
        .iter()
        .find(|(mapping, _)| (mapping.start..mapping.end).contains(&code))
        .expect("its code is mapped");
    let mut ask = |at: u64| {
        let frame = symbols.user(*number, mapping.file_offset(code + at));
        (frame.function, frame.module.unwrap_or_default())
    };
    let jit = |name: Option<&str>| (name.map(str::to_owned), "[jit]".to_owned());
    assert_eq!(ask(0), (None, "[anonymous]".to_owned()));
    let map = format!("/proc/{}/root/tmp/perf-{}.map", running.pid(), words[1]);
    fs::write(&map, format!("{code:x} 20 first\n")).unwrap();
    assert_eq!(ask(0x1f), jit(Some("first")));
    assert_eq!(ask(0x20), jit(None));
    let grown = format!("{code:x} 20 first\n{:x} 20 grown by one\n", code + 0x20);
    fs::write(&map, grown).unwrap();
    assert_eq!(ask(0x20), jit(Some("grown by one")));
    // A file of another user is ignored.
    fs::write(&map, format!("{code:x} 1000 longer than before, and a lie\n")).unwrap();
    chown(&map, Some(12_345), None).unwrap();
    assert_eq!(ask(0x100), jit(None));
}

/// Checks that every function of nm is listed at its offset, and that the offset resolves to one of its names. Returns all
/// names.
#[track_caller]
fn check_against_nm(path: &Path) -> BTreeSet<String> {
    let loaded = segments(path);
    let mut symbols = Symbols::new();
    let number = symbols.add_path(path).unwrap();
    let mut ours: BTreeMap<u64, (BTreeSet<String>, BTreeSet<String>)> = BTreeMap::new();
    for one in symbols.functions(number) {
        let (raw, clear) = ours.entry(one.offset).or_default();
        raw.insert(String::from_utf8_lossy(one.name).into_owned());
        clear.insert(one.demangled().into_owned());
    }
    let all = program::addresses_of_sized(path);
    assert!(all.len() > 3, "{all:?}");
    for (name, address) in &all {
        let place = offset(&loaded, *address);
        let (raw, clear) = ours.get(&place).expect("something is there");
        assert!(raw.contains(name), "{name} at {address:#x} of {}", path.display());
        let function = symbols.user(number, place).function.expect("it has a name");
        assert!(clear.contains(&function), "{function} instead of {name}");
    }
    ours.into_values().flat_map(|(_, clear)| clear).collect()
}

#[track_caller]
fn assert_names(all: &BTreeSet<String>, expected: &[&str]) {
    for name in expected {
        let last = name.rsplit("::").next().unwrap_or(name);
        let near: Vec<&String> = all.iter().filter(|one| one.contains(last)).collect();
        assert!(all.contains(*name), "{name}; there are {near:?}");
    }
}

/// Adds the code mappings of a process.
fn add_mappings(symbols: &mut Symbols, pid: u32) -> Vec<(Mapping, FileNumber)> {
    code_mappings(pid)
        .into_iter()
        .map(|mapping| {
            let number = symbols.add_mapping(pid, &mapping);
            (mapping, number)
        })
        .collect()
}

/// Returns the number of the file whose name begins like this.
#[track_caller]
fn named_file(mappings: &[(Mapping, FileNumber)], name: &str) -> FileNumber {
    mappings
        .iter()
        .find(|(mapping, _)| String::from_utf8_lossy(&mapping.path).contains(&format!("/{name}")))
        .expect("it is mapped")
        .1
}

/// Returns a shell command in a new mount namespace.
fn apart(script: &str) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", script]);
    command
}

fn tools(names: &[&str]) -> Result<(), Skip> {
    names.iter().try_for_each(|name| installed(name).map(|_| ()))
}

fn root(for_what: &str) -> Result<(), Skip> {
    if rustix::process::geteuid().is_root() {
        Ok(())
    } else {
        Err(Skip::new(format!("needs root, for {for_what}")))
    }
}

/// A pid that no process has.
const NO_PROCESS: u32 = 0x7fff_ffff;
