use crate::text;
use sockeye_model::{MptcpInfo, TcpInfo};
use std::borrow::Cow;
use std::fmt;

/// To which side of its column a cell leans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Words and addresses.
    Left,
    /// Numbers.
    Right,
}

macro_rules! socket_columns {
    ($($(#[$doc:meta])* $variant:ident $name:literal $header:literal $align:ident;)*) => {
        /// A column of a listing of sockets.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum SocketColumn {
            $($(#[$doc])* $variant,)*
            /// A field of tcp_info.
            Tcp(TcpField),
            /// A field of MPTCP's info.
            Mptcp(MptcpField),
        }

        impl SocketColumn {
            /// All columns but the fields of tcp_info and of MPTCP's info, in the order of CSV.
            pub const PLAIN: &[Self] = &[$(Self::$variant),*];

            /// Name, as `--columns` takes it.
            #[must_use]
            pub fn name(self) -> Cow<'static, str> {
                match self {
                    $(Self::$variant => Cow::Borrowed($name),)*
                    Self::Tcp(field) => Cow::Borrowed(field.name()),
                    Self::Mptcp(field) => Cow::Owned(format!("mptcp_{}", field.name())),
                }
            }

            /// What stands over it in a table.
            #[must_use]
            pub fn header(self) -> Cow<'static, str> {
                match self {
                    $(Self::$variant => Cow::Borrowed($header),)*
                    Self::Tcp(field) => Cow::Borrowed(field.short_name()),
                    Self::Mptcp(_) => self.name(),
                }
            }

            /// To which side it leans in a table.
            #[must_use]
            pub const fn align(self) -> Align {
                match self {
                    $(Self::$variant => Align::$align,)*
                    Self::Tcp(_) | Self::Mptcp(_) => Align::Right,
                }
            }
        }
    };
}

socket_columns! {
    /// Protocol, as ss's Netid
    Netid "netid" "Netid" Left;
    /// Address family of the socket itself
    Family "family" "Family" Left;
    /// State
    State "state" "State" Left;
    /// Received and not read; of a listener, connections waiting for `accept`
    RecvQ "recv_q" "Recv-Q" Right;
    /// Sent and not acknowledged; of a listener, how many may wait
    SendQ "send_q" "Send-Q" Right;
    /// Our address
    Local "local" "Local Address:Port" Left;
    /// The peer's address
    Peer "peer" "Peer Address:Port" Left;
    /// Kind of timer, time left, retransmissions
    Timer "timer" "Timer" Left;
    /// Time left of the timer
    TimerExpires "timer_expires" "Expires" Right;
    /// Retransmissions or probes of the timer
    TimerRetransmits "timer_retransmits" "Retrans" Right;
    /// Who made it
    User "user" "User" Left;
    /// Inode
    Inode "inode" "Inode" Right;
    /// Cookie
    Cookie "cookie" "Cookie" Right;
    /// Interface it is bound to
    Interface "interface" "Interface" Left;
    /// Firewall mark
    Mark "mark" "Mark" Right;
    /// net_cls class or priority
    ClassId "class_id" "Class" Right;
    /// IPv4 type of service
    Tos "tos" "TOS" Right;
    /// IPv6 traffic class
    Tclass "tclass" "TClass" Right;
    /// Halves shut down
    Shutdown "shutdown" "Shutdown" Left;
    /// Whether it takes IPv6 only
    V6only "v6only" "V6only" Left;
    /// Other socket options that are on
    Options "socket_options" "Options" Left;
    /// Memory held, of memory allowed
    Memory "memory" "Memory" Left;
    /// Packets dropped for want of room
    Drops "drops" "Drops" Right;
    /// Congestion control
    Congestion "congestion" "Congestion" Left;
    /// What congestion control tells about itself
    CongestionInfo "congestion_info" "Congestion Info" Left;
    /// Protocol layered upon TCP
    Ulp "ulp" "ULP" Left;
    /// References held to it
    References "references" "Refs" Right;
    /// Network namespace
    Netns "netns" "Netns" Left;
    /// cgroup v2
    Cgroup "cgroup" "Cgroup" Left;
    /// Who holds it
    Process "process" "Process" Left;
}

impl SocketColumn {
    /// Every column there is.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let mut all = Self::PLAIN.to_vec();
        all.extend(TcpField::all().map(Self::Tcp));
        all.extend(MptcpField::all().map(Self::Mptcp));
        all
    }

    /// The column with this name. Fields of tcp_info may be named without their unit (`rtt`), the best
    /// known also as `ss` names them (`cwnd`, `ssthresh`, `mss`, `retrans`: retransmissions in all).
    ///
    /// # Errors
    /// When there is none; the error tells the nearest and all known ones.
    pub fn from_name(name: &str) -> Result<Self, UnknownColumn> {
        let wanted = name.trim().to_ascii_lowercase().replace('-', "_");
        let alias = match wanted.as_str() {
            "protocol" => "netid",
            "uid" => "user",
            "pid" | "owner" | "owners" => "process",
            "skmem" | "mem" => "memory",
            "cwnd" => "snd_cwnd_segs",
            "ssthresh" => "snd_ssthresh_segs",
            "mss" => "snd_mss_bytes",
            "retrans" => "total_retrans_segs",
            same => same,
        };
        let all = Self::all();
        let exact = all.iter().find(|column| column.name() == alias);
        let by_unit = || {
            all.iter()
                .find(|column| matches!(column, Self::Tcp(field) if field.short_name() == alias))
        };
        match exact.or_else(by_unit) {
            Some(column) => Ok(*column),
            None => Err(UnknownColumn::new(
                name.trim(),
                all.iter().map(|column| column.name()),
            )),
        }
    }

    /// Columns from names with commas between them; `tcp_info` and `mptcp_info` stand for all their
    /// fields, `all` for everything.
    ///
    /// # Errors
    /// As [`SocketColumn::from_name`], for the first unknown name.
    pub fn parse_list(list: &str) -> Result<Vec<Self>, UnknownColumn> {
        let mut columns = Vec::new();
        for name in list.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            match name {
                "all" => columns.extend(Self::all()),
                "tcp_info" => columns.extend(TcpField::all().map(Self::Tcp)),
                "mptcp_info" => columns.extend(MptcpField::all().map(Self::Mptcp)),
                _ => columns.push(Self::from_name(name)?),
            }
        }
        if columns.is_empty() {
            return Err(UnknownColumn::new(
                "",
                Self::all().iter().map(|column| column.name()),
            ));
        }
        Ok(columns)
    }
}

/// A field of [`TcpInfo`], by its place in [`TcpInfo::NAMES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TcpField(u8);

impl TcpField {
    /// How many there are.
    pub const COUNT: usize = TcpInfo::NAMES.len();

    /// All, in the kernel's order.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..Self::COUNT).map(|place| Self(place as u8))
    }

    /// The field with this name, at compile time.
    pub const fn named(name: &str) -> Self {
        let mut place = 0;
        while place < Self::COUNT {
            if same(TcpInfo::NAMES[place].as_bytes(), name.as_bytes()) {
                return Self(place as u8);
            }
            place += 1;
        }
        panic!("no such field of tcp_info")
    }

    /// Its name, with its unit.
    #[must_use]
    pub const fn name(self) -> &'static str {
        TcpInfo::NAMES[self.0 as usize]
    }

    /// Its name without its unit, unless another field would be called the same: `delivered_ce_segs` is
    /// not `delivered_ce_bytes`.
    pub fn short_name(self) -> &'static str {
        let short = strip_unit(self.name());
        let same = TcpInfo::NAMES.iter().filter(|name| strip_unit(name) == short);
        if same.count() == 1 { short } else { self.name() }
    }

    /// Returns the index of this field among all TCP fields.
    pub const fn place(self) -> usize {
        self.0 as usize
    }
}

/// A field of [`MptcpInfo`], by its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MptcpField(u8);

impl MptcpField {
    /// All, in the kernel's order.
    pub fn all() -> impl Iterator<Item = Self> {
        let mut count = 0_u8;
        MptcpInfo::default().visit(|_, _| count += 1);
        (0..count).map(Self)
    }

    /// Its name, with its unit.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.find(&MptcpInfo::default()).0
    }

    /// Its value in `info`.
    pub fn value(self, info: &MptcpInfo) -> Option<u64> {
        self.find(info).1
    }

    fn find(self, info: &MptcpInfo) -> (&'static str, Option<u64>) {
        let (mut place, mut found) = (0, ("", None));
        info.visit(|name, value| {
            if place == self.0 {
                found = (name, value);
            }
            place += 1;
        });
        found
    }
}

/// A column that does not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownColumn {
    /// What was asked for.
    pub name: String,
    /// The known name most like it, if one is.
    pub nearest: Option<String>,
    /// Every known name.
    pub known: Vec<String>,
}

impl UnknownColumn {
    /// Creates the error for `name`, with the nearest of the `known` names.
    pub fn new(name: &str, known: impl Iterator<Item = Cow<'static, str>>) -> Self {
        let known: Vec<String> = known.map(Cow::into_owned).collect();
        let wanted = name.to_ascii_lowercase().replace('-', "_");
        let distance = |known: &str| distance(&wanted, known).min(distance(&wanted, strip_unit(known)));
        let nearest = known.iter().min_by_key(|known| distance(known));
        let limit = wanted.chars().count() / 2;
        let nearest = nearest
            .filter(|known| distance(known) <= limit && limit > 0)
            .cloned();
        Self {
            name: name.to_owned(),
            nearest,
            known,
        }
    }
}

impl fmt::Display for UnknownColumn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut clean = Vec::new();
        text::push_clean(&mut clean, self.name.as_bytes());
        write!(f, "unknown column '{}'", String::from_utf8_lossy(&clean))?;
        if let Some(nearest) = &self.nearest {
            write!(f, "; did you mean '{nearest}'?")?;
        }
        write!(f, " (known: {})", self.known.join(", "))
    }
}

impl std::error::Error for UnknownColumn {}

/// The name without its unit: `rtt_us` is `rtt`.
pub fn strip_unit(name: &str) -> &str {
    let stripped = |unit: &str| name.strip_suffix(unit).filter(|rest| !rest.is_empty());
    ["_bytes_per_s", "_bytes", "_segs", "_us", "_ms"]
        .into_iter()
        .find_map(stripped)
        .unwrap_or(name)
}

/// Levenshtein's distance, for names of a few dozen characters.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let changed = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

const fn same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let mut i = 0;
    while i < a.len() {
        if a[i] != b[i] {
            return false;
        }
        i += 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_is_found_by_its_name() {
        for column in SocketColumn::all() {
            assert_eq!(SocketColumn::from_name(&column.name()), Ok(column));
        }
        let names: std::collections::HashSet<_> = SocketColumn::all().iter().map(|c| c.name()).collect();
        assert_eq!(names.len(), SocketColumn::all().len());
    }

    #[test]
    fn names_people_type() {
        let list = SocketColumn::parse_list("state, rtt,cwnd,Recv-Q,retrans,").unwrap();
        let names: Vec<_> = list.iter().map(|column| column.name()).collect();
        assert_eq!(
            names,
            ["state", "rtt_us", "snd_cwnd_segs", "recv_q", "total_retrans_segs"]
        );
        assert_eq!(
            SocketColumn::parse_list("tcp_info").unwrap().len(),
            TcpInfo::NAMES.len()
        );
        assert!(SocketColumn::parse_list(" , ").is_err());
    }

    #[test]
    fn a_mistake_is_told_with_the_nearest_name() {
        let error = SocketColumn::parse_list("local,pear").unwrap_err().to_string();
        assert!(
            error.starts_with("unknown column 'pear'; did you mean 'peer'? (known: netid, "),
            "{error}"
        );
        let error = SocketColumn::from_name("\x1b[2Jzzzzzzzzzzz").unwrap_err();
        assert_eq!(error.nearest, None);
        assert!(
            error.to_string().starts_with("unknown column '\\x1b[2Jzz"),
            "{error}"
        );
    }
}
