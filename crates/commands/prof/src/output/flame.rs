//! Flame graphs: a box per function, as wide as its weight, above the box of its caller; the processes at the bottom.
//!
//! `sockeye_output::picture` draws them, like the graphs and charts. The known library, `inferno`, is under CDDL-1.0, which
//! `deny.toml` does not allow, and adds eleven packages; it reads lines of text, not a profile, and writes only SVG.

use sockeye_output::picture::paint::{Flame, Paint};
use sockeye_output::picture::scene::{Anchor, Behaviour, Scene, Shape};
use sockeye_output::picture::text_metrics::wrapped;
use sockeye_output::picture::{GraphTheme, png, raster, svg};
use sockeye_output::report::ChartFormat;
use sockeye_output::text::harmless;
use sockeye_profile::{NamedStacks, Profile, StackKind, StackName};
use std::collections::VecDeque;
use std::io::{self, Write};

/// Draws the stacks as a flame graph; without such stacks the picture says so.
///
/// # Errors
/// Those of `out`.
pub fn write_flame(
    out: &mut impl Write,
    profile: &Profile,
    which: StackKind,
    format: ChartFormat,
) -> io::Result<()> {
    let scene = lay_out(profile, which);
    match format {
        ChartFormat::Svg => svg::write(out, &scene, GraphTheme::Auto),
        ChartFormat::Png => png::write(out, &raster::draw(&scene, GraphTheme::Light, 2)),
    }
}

/// Computes the position of each box and text.
fn lay_out(profile: &Profile, which: StackKind) -> Scene {
    let named_stacks = profile.named_stacks(which).unwrap_or_default();
    let tower = Tower::build(named_stacks);
    let title = format!(
        "{}: {}",
        match which {
            StackKind::Cpu => "CPU by function",
            StackKind::Waits => "Waits off the CPU by function",
        },
        harmless(profile.target.as_bytes())
    );
    let subtitle = subtitle(profile, which, &tower);
    // 1. The lines above the boxes
    let mut shapes = Vec::new();
    let mut bottom = 0.0;
    let mut paragraph = |text: &str, size: f32, paint: Paint, bold: bool| {
        // The script writes its buttons at the right of the first line.
        for line in wrapped(text, size, bold, WIDTH - 2.0 * EDGE - 160.0) {
            bottom += size + 5.0;
            shapes.push(Shape::Text {
                paint,
                at: [EDGE, bottom],
                size,
                anchor: Anchor::Start,
                bold,
                text: line,
            });
        }
    };
    paragraph(&title, TITLE, Paint::Text, true);
    paragraph(&subtitle, SMALL, Paint::Faint, false);
    if let Some(partial) = &profile.partial {
        let text = format!("PARTIAL: {}", harmless(partial.text.as_bytes()));
        paragraph(&text, SMALL, Paint::Retransmitted, true);
    }
    if tower.boxes.is_empty() {
        paragraph(NOTHING, TITLE, Paint::Faint, false);
    }
    // 2. The boxes
    let rows = tower.boxes.iter().map(|one| one.row + 1).max().unwrap_or(0);
    let foot = bottom + 10.0 + rows as f32 * ROW;
    for one in &tower.boxes {
        if let Some(text) = &one.folded {
            shapes.push(Shape::Box {
                paint: Paint::Grid,
                at: [one.x, foot - (one.row + 1) as f32 * ROW],
                size: [(one.width - 0.4).max(0.1), ROW - 1.0],
                more: format!(
                    "{text} · - · {}",
                    weight(which, one.weight, tower.named_stacks.total)
                ),
                text: text.clone(),
            });
            continue;
        }
        let word = &tower.named_stacks.words[one.word as usize];
        let name = cut(&word.text);
        let module = word.module.as_deref().map_or_else(
            || {
                if one.row == 0 {
                    "process".to_owned()
                } else {
                    "-".to_owned()
                }
            },
            cut,
        );
        shapes.push(Shape::Box {
            paint: paint(word, which, one.row),
            at: [one.x, foot - (one.row + 1) as f32 * ROW],
            // A gap keeps neighbouring boxes apart.
            size: [(one.width - 0.4).max(0.1), ROW - 1.0],
            more: format!(
                "{name} · {module} · {}",
                weight(which, one.weight, tower.named_stacks.total)
            ),
            text: name,
        });
    }
    Scene {
        width: WIDTH,
        height: foot + EDGE,
        title,
        description: subtitle,
        shapes,
        behaviour: Some(Behaviour {
            script: include_str!("flame.js"),
            style: STYLE,
        }),
    }
}

/// Returns the line below the title: duration, weight, and what is missing.
fn subtitle(profile: &Profile, which: StackKind, tower: &Tower) -> String {
    let seconds = profile.duration_ns as f64 / 1e9;
    let mut parts = vec![format!("{seconds:.3} s").replace(".000 s", " s")];
    let lost = match which {
        StackKind::Cpu => {
            let cpu = profile.cpu.as_ref();
            let rate = cpu.map_or(0, |cpu| cpu.samples_per_s);
            parts.push(format!(
                "{} samples, {rate} a second asked for",
                tower.named_stacks.total
            ));
            if cpu.is_some_and(|cpu| cpu.user_only) {
                parts.push("of the processes' own code only".to_owned());
            }
            profile.losses.samples
        }
        StackKind::Waits => {
            parts.push(format!("{} waited", time(tower.named_stacks.total)));
            profile.losses.waits
        }
    };
    parts.push(format!("{lost} lost"));
    if tower.narrow > 0 {
        parts.push(format!(
            "{} boxes too narrow to be seen are left out, and those above them",
            tower.narrow
        ));
    }
    if tower.folded > 0 {
        parts.push(format!(
            "{} functions without a branch are drawn as a few grey boxes",
            tower.folded
        ));
    }
    if tower.high > 0 {
        parts.push(format!("{} deeper than {ROWS_MAX} rows", tower.high));
    }
    if tower.named_stacks.too_deep > 0 {
        parts.push(format!("{} stacks cut", tower.named_stacks.too_deep));
    }
    parts.join(", ")
}

/// A box of the graph.
#[derive(Debug, Clone, PartialEq)]
struct FlameBox {
    /// Its place in [`NamedStacks::words`].
    word: u32,
    /// Rows below it; 0: a process.
    row: usize,
    x: f32,
    width: f32,
    weight: u64,
    /// Text of a box that is drawn in place of many functions one above the other.
    folded: Option<String>,
}

/// The boxes, from the lowest row upwards.
struct Tower {
    named_stacks: NamedStacks,
    boxes: Vec<FlameBox>,
    /// Boxes left out because they are too narrow or too many, without those above them.
    narrow: u64,
    /// Boxes left out because they are above the last row.
    high: u64,
    /// Boxes that are drawn as one, in runs without branches.
    folded: u64,
}

/// A range of the sorted stacks that are equal below a row.
struct Span {
    from: usize,
    to: usize,
    /// Functions below it in its stacks.
    depth: usize,
    /// Rows below it in the picture: fewer where a run is drawn as one box.
    row: usize,
    /// Depth at which the run without branches began that it continues.
    run: usize,
    x: f64,
}

impl Tower {
    fn build(mut named_stacks: NamedStacks) -> Self {
        // 1. Sort, so that stacks with equal beginnings are neighbours; by text, so that the order is reproducible.
        let mut order: Vec<u32> = (0..named_stacks.words.len() as u32).collect();
        let key = |place: &u32| {
            let word = &named_stacks.words[*place as usize];
            (word.text.as_str(), word.is_kernel, word.module.as_deref())
        };
        order.sort_unstable_by(|one, other| key(one).cmp(&key(other)));
        let mut ranks = vec![0_u32; order.len()];
        for (rank, place) in (0..).zip(&order) {
            ranks[*place as usize] = rank;
        }
        for (stack, _) in &mut named_stacks.stacks {
            for word in stack {
                *word = ranks[*word as usize];
            }
        }
        named_stacks.stacks.sort_unstable();
        // 2. Row by row, so that at the limit the lowest rows remain.
        let mut tower = Self {
            named_stacks: NamedStacks::default(),
            boxes: Vec::new(),
            narrow: 0,
            high: 0,
            folded: 0,
        };
        let per_weight = f64::from(WIDTH - 2.0 * EDGE) / named_stacks.total.max(1) as f64;
        let mut spans = VecDeque::from([Span {
            from: 0,
            to: named_stacks.stacks.len(),
            depth: 0,
            row: 0,
            run: 0,
            x: f64::from(EDGE),
        }]);
        while let Some(span) = spans.pop_front() {
            tower.split(&named_stacks, &span, per_weight, &order, &mut spans);
        }
        tower.named_stacks = named_stacks;
        tower
    }

    /// Adds the boxes of one row above a span, and their spans.
    fn split(
        &mut self,
        named_stacks: &NamedStacks,
        span: &Span,
        per_weight: f64,
        order: &[u32],
        spans: &mut VecDeque<Span>,
    ) {
        let stacks = &named_stacks.stacks;
        let (mut from, mut x) = (span.from, span.x);
        while from < span.to {
            let word = stacks[from].0.get(span.depth);
            let mut to = from;
            let mut weight = 0_u64;
            while to < span.to && stacks[to].0.get(span.depth) == word {
                weight = weight.saturating_add(stacks[to].1);
                to += 1;
            }
            let width = weight as f64 * per_weight;
            // Stacks that end here sort first and have no box in this row.
            if let Some(word) = word {
                if span.row >= ROWS_MAX {
                    self.high += 1;
                } else if width < NARROWEST || self.boxes.len() >= BOXES_MAX {
                    self.narrow += 1;
                } else {
                    // Sorted: what the first and the last have in common, all have.
                    let (first, last) = (&stacks[from].0, &stacks[to - 1].0);
                    let run = if (from, to) == (span.from, span.to) {
                        span.run
                    } else {
                        span.depth
                    };
                    let run_end = first
                        .iter()
                        .zip(last)
                        .take_while(|(one, other)| one == other)
                        .count();
                    let mut next = span.depth + 1;
                    let mut folded = None;
                    if run_end - run > RUN_MAX && span.depth == run + RUN_SHOWN {
                        next = run_end - RUN_SHOWN;
                        folded = Some(folded_text(&first[span.depth..next], named_stacks, order));
                        self.folded += (next - span.depth) as u64;
                    }
                    self.boxes.push(FlameBox {
                        word: order[*word as usize],
                        row: span.row,
                        x: x as f32,
                        width: width as f32,
                        weight,
                        folded,
                    });
                    spans.push_back(Span {
                        from,
                        to,
                        depth: next,
                        row: span.row + 1,
                        run,
                        x,
                    });
                }
            }
            (from, x) = (to, x + width);
        }
    }
}

/// Returns the text of a box in place of these functions.
fn folded_text(functions: &[u32], named_stacks: &NamedStacks, order: &[u32]) -> String {
    let name = |word: &u32| {
        named_stacks
            .words
            .get(order[*word as usize] as usize)
            .map_or("", |word| word.text.as_str())
    };
    let mut names: Vec<&str> = functions.iter().map(name).collect();
    names.dedup();
    names.truncate(FOLDED_NAMED);
    cut(&format!(
        "{} functions, each called only by the one below: {} …",
        functions.len(),
        names.join(", ")
    ))
}

/// Returns the colour of a box: the same function has the same shade everywhere.
fn paint(word: &StackName, which: StackKind, row: usize) -> Paint {
    if row == 0 {
        return Paint::Grid;
    }
    let flame = match (which, word.is_kernel) {
        (StackKind::Cpu, false) => Flame::User,
        (StackKind::Cpu, true) => Flame::Kernel,
        (StackKind::Waits, false) => Flame::Waiting,
        (StackKind::Waits, true) => Flame::KernelWaiting,
    };
    // FNV-1a
    let hash = word.text.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    Paint::flame(flame, hash >> 16)
}

fn weight(which: StackKind, weight: u64, total: u64) -> String {
    let share = weight as f64 / total.max(1) as f64 * 100.0;
    match which {
        StackKind::Cpu if weight == 1 => format!("1 sample, {share:.1} %"),
        StackKind::Cpu => format!("{weight} samples, {share:.1} %"),
        StackKind::Waits => format!("{}, {share:.1} %", time(weight)),
    }
}

fn time(us: u64) -> String {
    let mut out = Vec::new();
    sockeye_output::number::push_time_us(&mut out, us);
    String::from_utf8_lossy(&out).into_owned()
}

/// Returns a name without control characters, shortened to [`NAME_MAX`] characters.
fn cut(name: &str) -> String {
    let name = harmless(name.as_bytes());
    match name.char_indices().nth(NAME_MAX) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name,
    }
}

const STYLE: &str = "\
.b text{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,\"DejaVu Sans Mono\",monospace;pointer-events:none}
.b{cursor:pointer}.b:hover rect{stroke:currentColor;stroke-width:1}.b.hit rect{fill:#d000c0}.b.hit text{fill:#fff}
.act{cursor:pointer}
";
const NOTHING: &str = "there are no such stacks in this profile";
const WIDTH: f32 = 1200.0;
const EDGE: f32 = 10.0;
const ROW: f32 = 17.0;
/// Font sizes in pixels.
const TITLE: f32 = 15.0;
const SMALL: f32 = 12.0;
/// Narrower boxes (in pixels) are not visible.
const NARROWEST: f64 = 0.3;
const ROWS_MAX: usize = 300;
/// A longer run of functions that each have one caller and one callee is drawn as one box between its ends.
const RUN_MAX: usize = 32;
/// Functions that are shown at each end of such a run.
const RUN_SHOWN: usize = 10;
/// Functions that are named in the box between.
const FOLDED_NAMED: usize = 40;
const BOXES_MAX: usize = 50_000;
/// The most characters of a name.
const NAME_MAX: usize = 600;
