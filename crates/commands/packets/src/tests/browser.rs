//! The page in a real browser: its reactions to input, and whether it reports any error.

use super::transfers::{Transfer, turned};
use crate::output::{GraphDirections, GraphFormat, GraphLayout, GraphPanel, write_graph};
use serde_json::Value;
use sockeye_trace::{Confidence, Connection, Event, EventKind, Flag, Flags, Series};
use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn wheel_drag_touch_and_keys_change_the_view() {
    let transfer = Transfer {
        segments: 1500,
        loss_ppm: 8_000,
        queue: 300,
        closed: Some((600, 700_000_000)),
        ..Transfer::default()
    };
    let (series, connection) = transfer.run();
    let Some(seen) = visited(&series, &connection, "script", HANDS) else {
        return;
    };
    let number = |name: &str| seen[name].as_f64().unwrap_or_else(|| panic!("{name} in {seen}"));
    let list = |name: &str| -> Vec<f64> {
        seen[name]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one.as_f64().unwrap())
            .collect()
    };
    assert_eq!(seen["errors"], Value::Array(Vec::new()), "{seen}");

    // All points arrived, with their values.
    let side = &series.forward;
    assert_eq!(number("segments"), side.segments.len() as f64);
    let sums = side.segments.iter().fold([0_u64; 4], |sum, point| {
        [
            sum[0] + point.time_ns,
            sum[1] + point.start,
            sum[2] + point.end - point.start,
            sum[3] + point.frame,
        ]
    });
    assert_eq!(list("sums"), sums.map(|sum| sum as f64));
    assert_eq!(number("acked"), side.acks.last().unwrap().sequence as f64);
    assert_eq!(
        number("flight"),
        f64::from(side.in_flight.iter().map(|point| point.1).max().unwrap())
    );
    assert_eq!(
        number("rtt"),
        side.rtt.iter().map(|point| point.1).max().unwrap() as f64
    );
    assert!(number("painted") > 20.0, "the canvas is empty: {seen}");

    let whole = list("whole");
    let span = |view: &[f64]| view[1] - view[0];
    // The wheel zooms around the position of the pointer.
    let wheel = list("wheel");
    assert!(span(&wheel) < span(&whole) * 0.8, "{seen}");
    assert!(
        (number("wheel_before") - number("wheel_after")).abs() < span(&whole) / 500.0,
        "{seen}"
    );
    // A drag shows the selected span, one with shift moves the view.
    let (drag, selected) = (list("drag"), list("drag_selected"));
    assert!(
        drag.iter()
            .zip(&selected)
            .all(|(one, other)| (one - other).abs() < span(&whole) / 300.0),
        "{seen}"
    );
    let moved = list("moved");
    assert!(
        (span(&moved) - span(&drag)).abs() < 1.0 && moved[0] < drag[0],
        "{seen}"
    );
    // Two fingers that move apart zoom in.
    assert!(span(&list("pinch")) < span(&list("pinch_before")) * 0.7, "{seen}");
    // Keys
    assert_eq!(list("reset"), whole);
    assert!((span(&list("plus")) * 2.0 - span(&whole)).abs() < 1.0, "{seen}");
    assert!(list("right")[0] > list("plus")[0], "{seen}");
    // A click in the list jumps there.
    let (jump, event) = (list("jump"), number("jump_event"));
    assert!(
        jump[0] < event && event < jump[1] && span(&jump) < span(&whole) / 5.0,
        "{seen}"
    );
    assert!(list("next")[0] > jump[0], "{seen}");
    assert_eq!(number("listed"), series.events.len() as f64);
    assert!(number("closed_listed") == 1.0, "{seen}");
    // The pointer shows the segment below it.
    let segment = &side.segments[777];
    assert!((3.0..12.0).contains(&number("next_is")), "{seen}");
    let tip = seen["tip"].as_str().unwrap();
    for line in [
        format!("frame {}", segment.frame),
        format!("seq {} to {}", segment.start, segment.end),
        format!("len {}", segment.end - segment.start),
        format!(
            "time {}.{:09} s",
            segment.time_ns / 1_000_000_000,
            segment.time_ns % 1_000_000_000
        ),
    ] {
        assert!(tip.lines().any(|one| one == line), "{line} in {tip}");
    }
    assert_eq!(number("panels"), 6.0);
    assert_eq!(number("panels_without_one"), 5.0);
    assert_eq!(seen["injected"], Value::Bool(false));
}

#[test]
fn hostile_and_empty_pages_open_without_errors() {
    let (series, connection) = Transfer {
        segments: 50,
        ..Transfer::default()
    }
    .run();
    let mut odd = series.clone();
    for (nth, segment) in odd.forward.segments.iter_mut().enumerate() {
        segment.start = u64::MAX - nth as u64;
        segment.time_ns = if nth % 2 == 0 { u64::MAX } else { 0 };
    }
    for (name, series) in [
        ("empty", Series::default()),
        ("turned", turned(series)),
        ("odd", odd),
    ] {
        let Some(seen) = visited(
            &series,
            &connection,
            name,
            "seen.injected = 'injected' in window;",
        ) else {
            return;
        };
        assert_eq!(seen["errors"], Value::Array(Vec::new()), "{name}: {seen}");
        assert_eq!(seen["injected"], Value::Bool(false), "{name}");
    }
}

/// One retransmission, one peak in flight and one long round trip, at every zoom.
#[test]
fn single_events_are_visible_at_every_zoom() {
    let (mut series, connection) = Transfer {
        segments: 60_000,
        gap_ns: 100_000,
        queue: 1000,
        ..Transfer::default()
    }
    .run();
    let side = &mut series.forward;
    side.segments[23_456].flags = Flags::NONE.with(Flag::Retransmission);
    let most = side.in_flight.iter().map(|point| point.1).max().unwrap();
    let peak = side.in_flight.len() / 3;
    side.in_flight[peak].1 = most * 2;
    let longest = side.rtt.iter().map(|point| point.1).max().unwrap();
    let long = side.rtt.len() * 2 / 3;
    side.rtt[long].1 = longest * 2;
    let Some(seen) = visited(&series, &connection, "zoom", ZOOM) else {
        return;
    };
    assert_eq!(seen["errors"], Value::Array(Vec::new()), "{seen}");
    let zooms = seen["zooms"].as_array().unwrap();
    assert_eq!(zooms.len(), 36, "{seen}");
    for zoom in zooms {
        assert_eq!(zoom["seen"], true, "{zoom}");
    }
}

#[test]
fn long_event_list_has_few_elements() {
    let (mut series, connection) = Transfer {
        segments: 1500,
        ..Transfer::default()
    }
    .run();
    let end = connection.end_ns;
    let kinds = [
        EventKind::Lost,
        EventKind::LossBurst { segments: 7 },
        EventKind::Stall {
            duration_ns: 2_000_000,
        },
    ];
    series.events = (0..20_000_u64)
        .map(|nth| Event {
            time_ns: end / 20_000 * nth,
            frame: nth + 1,
            from_client: true,
            kind: kinds[nth as usize % 3],
            segments: 1,
            confidence: Confidence::Proven,
            evidence: "never SACKed, sent again",
        })
        .collect();
    let Some(seen) = visited(&series, &connection, "findings", FINDINGS) else {
        return;
    };
    assert_eq!(seen["errors"], Value::Array(Vec::new()), "{seen}");
    // Equal events are one row with their number and times; a click shows each.
    assert_eq!(seen["listed"], 3, "{seen}");
    assert_eq!(seen["count"], "20000", "{seen}");
    let groups: Vec<&str> = seen["groups"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(Value::as_str)
        .collect();
    for (group, begin) in groups.iter().zip([
        "▸ 6667 × lost 0.00",
        "▸ 6667 × loss burst 0.0",
        "▸ 6666 × stall 0.0",
    ]) {
        assert!(group.starts_with(begin) && group.contains(" s to "), "{seen}");
    }
    assert_eq!(seen["opened"], 501, "{seen}");
    assert!(
        seen["inner"].as_str().unwrap().starts_with("7 lost at once 0.0"),
        "{seen}"
    );
    assert_eq!(seen["focused"], true, "{seen}");
    assert_eq!(seen["closed"], 3, "{seen}");
    assert_eq!(seen["chosen"], 600, "{seen}");
    assert_eq!(seen["current"], "600", "{seen}");
    assert_eq!(seen["later"], "20000, rows 501 to 1000 of 20003", "{seen}");
    assert_eq!(seen["kind"], "6666, rows 1 to 500 of 6667", "{seen}");
}

/// A narrow screen, a dark one, and use without a mouse.
#[test]
fn page_works_on_phone_and_keyboard() {
    let (series, connection) = Transfer {
        segments: 500,
        loss_ppm: 10_000,
        ..Transfer::default()
    }
    .run();
    let Some(seen) = visit(
        &series,
        &connection,
        "phone",
        PHONE,
        "380,800",
        &["--blink-settings=preferredColorScheme=0"],
    ) else {
        return;
    };
    assert_eq!(seen["errors"], Value::Array(Vec::new()), "{seen}");
    assert!(
        seen["wide"].as_f64().unwrap() <= seen["window"].as_f64().unwrap(),
        "{seen}"
    );
    assert!(seen["right_most"].as_f64().unwrap() <= 420.0, "{seen}");
    assert_eq!(seen["collisions"], Value::Array(Vec::new()), "{seen}");
    assert!(seen["texts"].as_f64().unwrap() > 10.0, "{seen}");
    assert_eq!(seen["dark"], true, "{seen}");
    assert_eq!(seen["background"], "rgb(17, 21, 26)", "{seen}");
    assert_eq!(seen["nameless"], Value::Array(Vec::new()), "{seen}");
    assert_eq!(seen["reachable"], true, "{seen}");
    assert_eq!(seen["fetched"], 0, "{seen}");
    assert_eq!(seen["moved"], true, "{seen}");
}

/// Opens the page, runs the script in it, and returns the script's results.
fn visited(series: &Series, connection: &Connection, name: &str, script: &str) -> Option<Value> {
    visit(series, connection, name, script, "1300,1000", &[])
}

fn visit(
    series: &Series,
    connection: &Connection,
    name: &str,
    script: &str,
    size: &str,
    flags: &[&str],
) -> Option<Value> {
    let Some(browser) = browser() else {
        eprintln!("SKIP: no chromium-headless-shell or chromium here: the page was not opened");
        return None;
    };
    let evil = "</script><script>injected=1</script><img src=x onerror=injected=1>";
    let layout = GraphLayout {
        format: GraphFormat::Html,
        panels: GraphPanel::ALL.to_vec(),
        directions: GraphDirections::Busier,
        source: evil.to_owned(),
        verdict: evil.to_owned(),
        ..GraphLayout::default()
    };
    let mut page = Vec::new();
    write_graph(&mut page, series, connection, &layout).unwrap();
    let page = String::from_utf8(page).unwrap();
    let is_alone = ["http://", "https://", " src=", "url(", "@import"]
        .iter()
        .all(|word| !page.replace(&escaped(evil), "").contains(word));
    assert!(is_alone, "the page asks for something else");
    // First, so that every error is recorded.
    let ears = "<head><script>window.heard=[];addEventListener('error',(e)=>heard.push(String(e.message)),true);\
        addEventListener('unhandledrejection',(e)=>heard.push(String(e.reason)));\
        addEventListener('securitypolicyviolation',(e)=>heard.push('policy: '+e.blockedURI));\
        console.error=(...all)=>heard.push(all.join(' '));</script>";
    let driver = DRIVER.replace("HANDS", script);
    let page = page.replacen("<head>", ears, 1).replacen("</body>", &driver, 1);

    let folder = Folder::new(name);
    let file = folder.0.join("page.html");
    std::fs::write(&file, page).unwrap();
    let out = Command::new("timeout")
        .args(["60".as_ref(), browser.as_os_str()])
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--virtual-time-budget=20000",
            "--dump-dom",
        ])
        .args(flags)
        .arg(format!("--window-size={size}"))
        .arg(format!("--user-data-dir={}", folder.0.join("profile").display()))
        .arg(format!("file://{}", file.display()))
        .output()
        .unwrap();
    let dom = String::from_utf8_lossy(&out.stdout).into_owned();
    let seen = dom
        .rsplit_once("<pre id=\"seen\">")
        .and_then(|(_, rest)| rest.split_once("</pre>"));
    let (seen, _) = seen.unwrap_or_else(|| {
        panic!(
            "{} {}\n{dom:.2000}",
            out.status,
            String::from_utf8_lossy(&out.stderr)
        )
    });
    let json = seen
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&amp;", "&");
    Some(serde_json::from_str(&json).unwrap())
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

fn browser() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let names = [
        "chromium-headless-shell",
        "chromium",
        "chromium-browser",
        "google-chrome",
    ];
    let mut places = std::env::split_paths(&path).flat_map(|folder| names.map(|name| folder.join(name)));
    places.find(|place| Path::new(place).is_file())
}

/// A folder that is deleted on drop.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("sockeye-page-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

const DRIVER: &str = r#"<script>
(async () => {
  const seen = {};
  try {
    for (let i = 0; i < 400 && !document.body.dataset.ready; i++) await new Promise((done) => setTimeout(done, 25));
    if (!document.body.dataset.ready) throw new Error("the page is not ready");
    HANDS
  } catch (error) {
    heard.push("driver: " + error + " " + error.stack);
  }
  seen.errors = heard;
  const pre = document.createElement("pre");
  pre.id = "seen";
  pre.textContent = JSON.stringify(seen);
  document.body.replaceChildren(pre);
})();
</script></body>"#;

const HANDS: &str = r##"
    const { state, directions, x, whole, show, draw } = graph, canvas = document.getElementById("graph");
    const box = canvas.getBoundingClientRect(), seg = directions[0].seg, sum = (list) => list.reduce((all, one) => all + one, 0);
    const at = (px, py, more) => ({ clientX: box.left + px, clientY: box.top + py, bubbles: true, cancelable: true, pointerId: 1, pointerType: "mouse", button: 0, ...more });
    const finger = (kind, px, py, more) => canvas.dispatchEvent(new PointerEvent(kind, at(px, py, more)));
    const key = (name) => document.body.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true, cancelable: true }));
    const back = (px) => state.view[0] + ((px - x(state.view[0])) / (x(state.view[1]) - x(state.view[0]))) * (state.view[1] - state.view[0]);
    seen.whole = [...whole];
    seen.segments = seg.time.length;
    seen.sums = [seg.time, seg.start, seg.len, seg.frame].map(sum);
    seen.acked = directions[0].acks.value.at(-1);
    seen.flight = Math.max(...directions[0].flight.value);
    seen.rtt = Math.max(...directions[0].rtt.value);
    const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    const colors = new Set();
    for (let i = 0; i < pixels.length; i += 4) colors.add(pixels[i] * 65536 + pixels[i + 1] * 256 + pixels[i + 2]);
    seen.painted = colors.size;

    seen.wheel_before = back(400);
    canvas.dispatchEvent(new WheelEvent("wheel", { ...at(400, 100), deltaY: -300 }));
    seen.wheel_after = back(400);
    seen.wheel = [...state.view];

    key("0");
    seen.drag_selected = [back(300), back(500)];
    finger("pointerdown", 300, 100);
    finger("pointermove", 420, 120);
    finger("pointermove", 500, 120);
    finger("pointerup", 500, 120);
    seen.drag = [...state.view];
    finger("pointerdown", 300, 100, { shiftKey: true });
    finger("pointermove", 400, 100, { shiftKey: true });
    finger("pointerup", 400, 100, { shiftKey: true });
    seen.moved = [...state.view];

    key("0");
    seen.pinch_before = [...state.view];
    finger("pointerdown", 300, 100, { pointerId: 2, pointerType: "touch" });
    finger("pointerdown", 400, 100, { pointerId: 3, pointerType: "touch" });
    finger("pointermove", 250, 100, { pointerId: 2, pointerType: "touch" });
    finger("pointermove", 480, 100, { pointerId: 3, pointerType: "touch" });
    seen.pinch = [...state.view];
    finger("pointerup", 250, 100, { pointerId: 2, pointerType: "touch" });
    finger("pointerup", 480, 100, { pointerId: 3, pointerType: "touch" });

    document.getElementById("reset").click();
    seen.reset = [...state.view];
    key("+");
    seen.plus = [...state.view];
    key("ArrowRight");
    seen.right = [...state.view];

    for (const group of document.querySelectorAll("#events [aria-expanded=false]")) document.querySelector("#events [aria-expanded=false]").click();
    seen.listed = document.querySelectorAll("#events [data-nth]").length;
    document.querySelector('#events [data-nth="3"]').click();
    seen.jump = [...state.view];
    seen.jump_event = directions[0].events[3].time;
    key("n");
    key("n");
    key("n");
    key("n");
    seen.next = [...state.view];
    const kind = document.getElementById("kind");
    kind.value = "window_closed";
    kind.dispatchEvent(new Event("change"));
    seen.closed_listed = document.querySelectorAll("#events button").length;

    // Zoomed in until the next segment is a few pixels away
    const nth = 777, around = (seg.time[nth + 1] - seg.time[nth]) * 80;
    show(seg.time[nth] - around, seg.time[nth] + around);
    draw();
    seen.next_is = x(seg.time[nth + 1]) - x(seg.time[nth]);
    const panel = state.panels[0];
    finger("pointermove", x(seg.time[nth]) + 0.4, panel.y(seg.start[nth] + seg.len[nth] / 2));
    seen.tip = document.getElementById("tip").hidden ? "" : document.getElementById("tip").textContent;

    seen.panels = state.panels.length;
    document.querySelector("#choices input").click();
    draw();
    seen.panels_without_one = state.panels.length;
    seen.injected = "injected" in window;
"##;

const ZOOM: &str = r##"
    const { state, directions, x, whole, show, draw } = graph, canvas = document.getElementById("graph");
    const direction = directions[0], flight = direction.flight, rtt = direction.rtt;
    const top = (list) => list.reduce((best, one, i) => (one > list[best] ? i : best), 0);
    const again = direction.seg.odd[0], peak = top(flight.value), long = top(rtt.value);
    const color = (name) => {
      const text = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
      return [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));
    };
    const places = [
      ["sequence", "--re", direction.seg.time[again], direction.seg.start[again] + direction.seg.len[again] / 2],
      ["in-flight", "--da", flight.time[peak], flight.value[peak]],
      ["rtt", "--da", rtt.time[long], rtt.value[long]],
    ];
    seen.zooms = [];
    for (let n = 0; n < 12; n++) {
      for (const [name, paint, time, value] of places) {
        const span = (whole[1] - whole[0]) / 2 ** n;
        // Not in the middle, where something else may be drawn.
        show(time - span * 0.37, time + span * 0.63);
        draw();
        const panel = state.panels.find((one) => one.name === name), ratio = window.devicePixelRatio || 1;
        const at = [x(time), panel.y(value)].map((one) => Math.round(one * ratio)), wanted = color(paint);
        const { data } = canvas.getContext("2d").getImageData(at[0] - 3, at[1] - 3, 7, 7);
        let near = 999;
        for (let i = 0; i < data.length; i += 4) near = Math.min(near, wanted.reduce((sum, one, k) => sum + Math.abs(one - data[i + k]), 0));
        seen.zooms.push({ n, name, seen: near < 120, near });
      }
    }
"##;

const FINDINGS: &str = r##"
    const { state } = graph;
    const key = (name) => document.body.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true, cancelable: true }));
    const buttons = () => document.querySelectorAll("#events button"), count = () => document.getElementById("count").textContent;
    seen.listed = buttons().length;
    seen.count = count();
    seen.groups = [...buttons()].map((one) => one.textContent);
    buttons()[1].click();
    seen.opened = buttons().length;
    seen.inner = document.querySelector("#events .inner").textContent;
    seen.focused = document.activeElement === buttons()[1];
    buttons()[1].click();
    seen.closed = buttons().length;
    for (let i = 0; i <= 600; i++) key("n");
    seen.chosen = direction_index(state.chosen.event);
    seen.current = document.querySelector("#events [aria-current]").dataset.nth;
    function direction_index(event) { return graph.directions[0].events.indexOf(event); }
    const kind = document.getElementById("kind");
    kind.dispatchEvent(new Event("change"));
    [...buttons()].at(-1).click();
    seen.later = count();
    kind.value = "stall";
    kind.dispatchEvent(new Event("change"));
    seen.kind = count();
"##;

const PHONE: &str = r##"
    const { state } = graph;
    seen.wide = document.documentElement.scrollWidth;
    seen.window = window.innerWidth;
    seen.dark = matchMedia("(prefers-color-scheme: dark)").matches;
    seen.background = getComputedStyle(document.body).backgroundColor;
    const controls = [...document.querySelectorAll("button, select, input, canvas")];
    seen.nameless = controls.filter((one) => !(one.textContent.trim() || one.getAttribute("aria-label") || (one.labels && one.labels.length))).map((one) => one.outerHTML);
    seen.reachable = controls.every((one) => one.tabIndex >= 0);
    // Chromium's window may not be as narrow as a telephone.
    document.documentElement.style.width = "420px";
    seen.right_most = Math.max(...[...document.querySelectorAll("body *")].map((one) => one.getBoundingClientRect().right));
    const canvas = document.getElementById("graph"), pen = canvas.getContext("2d"), plain = pen.fillText.bind(pen);
    let texts = [];
    pen.fillText = (text, left, base) => {
      const width = pen.measureText(text).width, from = left - { left: 0, center: width / 2, right: width }[pen.textAlign];
      if (text) texts.push([text, from, from + width, base - 8, base]);
      plain(text, left, base);
    };
    seen.collisions = [];
    const { show, draw, whole } = graph;
    for (let n = 0; n < 9; n++) {
      texts = [];
      const span = (whole[1] - whole[0]) / 2 ** n;
      show(whole[0] + span * 0.2, whole[0] + span * 1.2);
      draw();
      texts.forEach(([text, left, right, top, base], i) => {
        if (left < 0 || right > canvas.clientWidth) seen.collisions.push(text + " leaves the graph");
        for (const [other, from, to, high, low] of texts.slice(i + 1))
          if (left < to && from < right && top < low && high < base) seen.collisions.push(text + " and " + other);
      });
    }
    seen.texts = texts.length;
    show(...whole);
    draw();
    seen.fetched = performance.getEntriesByType("resource").length;
    const before = [...state.view];
    document.getElementById("graph").focus();
    document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key: "+", bubbles: true, cancelable: true }));
    document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowLeft", bubbles: true, cancelable: true }));
    seen.moved = state.view[0] >= before[0] && state.view[1] < before[1];
"##;
