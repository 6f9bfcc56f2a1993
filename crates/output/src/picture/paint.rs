//! Colours by meaning, for light and dark themes.
//!
//! The colours of data are Okabe and Ito's ("Color Universal Design", 2008), which people with any kind of colour vision
//! can distinguish; on black some are lighter.

/// The meaning of a colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Paint {
    /// Background.
    Page,
    /// Grid lines.
    Grid,
    /// Axes and their ticks.
    Axis,
    /// Text.
    Text,
    /// Secondary text.
    Faint,
    /// Data segments, and the first line of a chart.
    Data,
    /// Acknowledged sequence numbers.
    Acknowledged,
    /// The receiver's window.
    Window,
    /// Retransmitted segments.
    Retransmitted,
    /// Segments that arrived out of order.
    Reordered,
    /// Spurious retransmissions.
    Spurious,
    /// Selectively acknowledged ranges.
    Sack,
    /// Window and keepalive probes.
    Probe,
    /// Times without progress.
    Stalled,
    /// A closed window.
    Closed,
    /// Estimated values.
    Estimated,
    /// Signs: SYN, FIN, RST.
    Sign,
    /// A box of a flame graph, in one of the shades of its kind.
    Flame(Flame, u8),
}

/// Kind of code that a box of a flame graph shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Flame {
    /// Code of a program, on the CPU.
    User,
    /// Code of the kernel, on the CPU.
    Kernel,
    /// Code of a program, waiting.
    Waiting,
    /// Code of the kernel, waiting.
    KernelWaiting,
}

impl Flame {
    const fn shades(self) -> &'static [(&'static str, u32, u32); 6] {
        match self {
            Self::User => &USER,
            Self::Kernel => &KERNEL,
            Self::Waiting => &WAITING,
            Self::KernelWaiting => &KERNEL_WAITING,
        }
    }
}

impl Paint {
    /// Returns the nth shade for a kind of box; shades repeat.
    pub fn flame(flame: Flame, nth: u32) -> Self {
        Self::Flame(flame, (nth % 6) as u8)
    }

    /// Every paint except those of flame graphs.
    pub const ALL: [Self; 17] = [
        Self::Page,
        Self::Grid,
        Self::Axis,
        Self::Text,
        Self::Faint,
        Self::Data,
        Self::Acknowledged,
        Self::Window,
        Self::Retransmitted,
        Self::Reordered,
        Self::Spurious,
        Self::Sack,
        Self::Probe,
        Self::Stalled,
        Self::Closed,
        Self::Estimated,
        Self::Sign,
    ];

    /// Paints of the curves of a chart, in their order.
    pub const CURVES: [Self; 8] = [
        Self::Data,
        Self::Retransmitted,
        Self::Acknowledged,
        Self::Window,
        Self::Reordered,
        Self::Sack,
        Self::Sign,
        Self::Spurious,
    ];

    /// Returns its class in SVG.
    pub const fn class(self) -> &'static str {
        match self {
            Self::Page => "pg",
            Self::Grid => "gr",
            Self::Axis => "ax",
            Self::Text => "tx",
            Self::Faint => "fa",
            Self::Data => "da",
            Self::Acknowledged => "ac",
            Self::Window => "wi",
            Self::Retransmitted => "re",
            Self::Reordered => "oo",
            Self::Spurious => "sp",
            Self::Sack => "sa",
            Self::Probe => "pr",
            Self::Stalled => "st",
            Self::Closed => "cl",
            Self::Estimated => "es",
            Self::Sign => "si",
            Self::Flame(flame, nth) => flame.shades()[nth as usize % 6].0,
        }
    }

    /// Returns red, green and blue.
    pub const fn color(self, dark: bool) -> u32 {
        let (light, on_black) = match self {
            Self::Page => (0xff_ff_ff, 0x11_15_1a),
            Self::Grid => (0xe6_e8_eb, 0x25_2b_33),
            Self::Axis => (0x8a_91_99, 0x6b_74_7e),
            Self::Text => (0x1b_1f_24, 0xe8_eb_ee),
            Self::Faint => (0x59_61_6a, 0x9d_a6_af),
            Self::Data => (0x00_72_b2, 0x56_b4_e9),
            Self::Acknowledged => (0x00_9e_73, 0x1f_c4_95),
            Self::Window => (0xcc_79_a7, 0xcc_79_a7),
            Self::Retransmitted => (0xd5_5e_00, 0xff_7a_1a),
            Self::Reordered => (0xe6_9f_00, 0xe6_9f_00),
            Self::Spurious => (0xa8_93_00, 0xf0_e4_42),
            Self::Sack => (0x56_b4_e9, 0x2f_86_c8),
            Self::Probe => (0x59_61_6a, 0x9d_a6_af),
            Self::Stalled => (0xf0_ee_e6, 0x24_22_1c),
            Self::Closed => (0xf6_e6_ee, 0x33_1f_2b),
            Self::Estimated => (0x1b_1f_24, 0xe8_eb_ee),
            Self::Sign => (0x1b_1f_24, 0xe8_eb_ee),
            Self::Flame(flame, nth) => {
                let (_, light, on_black) = flame.shades()[nth as usize % 6];
                (light, on_black)
            }
        };
        if dark { on_black } else { light }
    }
}

/// Class, colour for the light theme, colour for the dark theme; text is readable on both.
const USER: [(&str, u32, u32); 6] = [
    ("u0", 0xf2_95_78, 0x63_31_21),
    ("u1", 0xf4_b6_94, 0x7a_45_29),
    ("u2", 0xf2_b0_78, 0x63_40_21),
    ("u3", 0xf4_cb_94, 0x7a_58_29),
    ("u4", 0xf2_cc_78, 0x63_4f_21),
    ("u5", 0xf4_e1_94, 0x7a_6a_29),
];
/// As [`USER`].
const KERNEL: [(&str, u32, u32); 6] = [
    ("k0", 0x78_d1_f2, 0x21_52_63),
    ("k1", 0x94_d1_f4, 0x29_5c_7a),
    ("k2", 0x78_b9_f2, 0x21_45_63),
    ("k3", 0x94_be_f4, 0x29_4c_7a),
    ("k4", 0x78_a1_f2, 0x21_37_63),
    ("k5", 0x94_ab_f4, 0x29_3c_7a),
];
/// As [`USER`].
const WAITING: [(&str, u32, u32); 6] = [
    ("w0", 0x9b_94_f4, 0x2e_29_7a),
    ("w1", 0x91_78_f2, 0x2e_21_63),
    ("w2", 0xb4_94_f4, 0x44_29_7a),
    ("w3", 0xb1_78_f2, 0x40_21_63),
    ("w4", 0xce_94_f4, 0x5a_29_7a),
    ("w5", 0x9b_a0_f4, 0x21_26_63),
];
/// As [`USER`].
const KERNEL_WAITING: [(&str, u32, u32); 6] = [
    ("v0", 0x78_f2_a1, 0x21_63_37),
    ("v1", 0x94_f4_c0, 0x29_7a_4e),
    ("v2", 0x78_f2_be, 0x21_63_47),
    ("v3", 0x94_f4_d7, 0x29_7a_61),
    ("v4", 0x78_f2_db, 0x21_63_57),
    ("v5", 0x94_f4_ee, 0x29_7a_75),
];
