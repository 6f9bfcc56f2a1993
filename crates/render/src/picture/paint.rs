//! Colours by meaning, light and dark.
//!
//! Those of data are Okabe and Ito's ("Color Universal Design", 2008), which people with any kind of colour vision
//! tell apart; on black some are lighter.

/// What something is painted as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Paint {
    Page,
    Grid,
    Axis,
    Text,
    Faint,
    Data,
    Acknowledged,
    Window,
    Retransmitted,
    Reordered,
    Spurious,
    Sack,
    Probe,
    Stalled,
    Closed,
    Estimated,
    Sign,
}

impl Paint {
    pub(crate) const ALL: [Self; 17] = [
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

    /// Those of curves beside each other, in their order.
    pub(crate) const CURVES: [Self; 8] = [
        Self::Data,
        Self::Retransmitted,
        Self::Acknowledged,
        Self::Window,
        Self::Reordered,
        Self::Sack,
        Self::Sign,
        Self::Spurious,
    ];

    /// Its class in SVG.
    pub(crate) const fn class(self) -> &'static str {
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
        }
    }

    /// Red, green and blue.
    pub(crate) const fn color(self, dark: bool) -> u32 {
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
        };
        if dark { on_black } else { light }
    }
}
