use sockeye_model::{Namespace, natural_order};
use sockeye_output::column::{Align, UnknownColumn};
use std::borrow::Cow;
use std::cmp::Ordering;

macro_rules! netns_columns {
    ($($(#[$doc:meta])* $variant:ident $name:literal $header:literal $align:ident;)*) => {
        /// A column of a listing of network namespaces.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum NetnsColumn {
            $($(#[$doc])* $variant,)*
        }

        impl NetnsColumn {
            /// All columns, in the order of CSV.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// Name, as `--columns` takes it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// What stands over it in a table.
            #[must_use]
            pub const fn header(self) -> &'static str {
                match self { $(Self::$variant => $header,)* }
            }

            /// To which side it leans in a table.
            #[must_use]
            pub const fn align(self) -> Align {
                match self { $(Self::$variant => Align::$align,)* }
            }
        }
    };
}

netns_columns! {
    /// What it is called: its names, or its container, or its first process
    Name "name" "Name" Left;
    /// The container that lives in it
    Container "container" "Container" Left;
    /// Its number in our own namespace
    Id "id" "Id" Right;
    /// Its inode
    Inode "inode" "Inode" Right;
    /// Processes that live in it
    Pids "pids" "Pids" Right;
    /// Threads that live in it
    Threads "threads" "Threads" Right;
    /// Sockets in it
    Sockets "sockets" "Sockets" Right;
    /// Network interfaces in it
    Interfaces "interfaces" "Ifaces" Right;
    /// How old it is
    Age "age" "Age" Right;
    /// Whether it is the one that we are in
    Own "own" "Own" Left;
    /// Whether nobody lives in it
    Leaked "leaked" "Leaked" Left;
    /// What holds it open
    KeptBy "kept_by" "Kept by" Left;
}

impl NetnsColumn {
    /// The column with this name; also by the word that a filter has for it.
    ///
    /// # Errors
    /// When there is none; the error tells the nearest and all known ones.
    pub fn from_name(name: &str) -> Result<Self, UnknownColumn> {
        let wanted = name.trim().to_ascii_lowercase().replace(['-', ' '], "_");
        let found = Self::ALL.iter().find(|column| {
            column.name() == wanted || column.header().to_ascii_lowercase().replace(' ', "_") == wanted
        });
        let found = found.copied().or(match &*wanted {
            "processes" => Some(Self::Pids),
            "nsid" => Some(Self::Id),
            _ => None,
        });
        found.ok_or_else(|| {
            let known = Self::ALL.iter().map(|column| Cow::Borrowed(column.name()));
            UnknownColumn::new(name.trim(), known)
        })
    }

    /// Columns from names with commas between them; `all` stands for everything.
    ///
    /// # Errors
    /// As [`NetnsColumn::from_name`], for the first unknown name.
    pub fn parse_list(list: &str) -> Result<Vec<Self>, UnknownColumn> {
        let mut columns = Vec::new();
        for name in list.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            match name {
                "all" => columns.extend(Self::ALL),
                _ => columns.push(Self::from_name(name)?),
            }
        }
        if columns.is_empty() {
            return Self::from_name("").map(|column| vec![column]);
        }
        Ok(columns)
    }
}

/// By which column namespaces are sorted, and in which direction. What is absent comes last either way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NetnsSortKey {
    column: NetnsColumn,
    descending: bool,
}

impl NetnsSortKey {
    /// The name of a column, with `-` before it largest first.
    ///
    /// # Errors
    /// When there is no such column.
    pub fn parse(text: &str) -> Result<Self, UnknownColumn> {
        let (name, descending) = text.strip_prefix('-').map_or((text, false), |name| (name, true));
        let column = NetnsColumn::from_name(name)?;
        Ok(Self { column, descending })
    }

    /// The column.
    #[must_use]
    pub const fn column(self) -> NetnsColumn {
        self.column
    }

    /// Sorts; those that are alike keep their order.
    pub fn sort(self, namespaces: &mut [Namespace]) {
        namespaces.sort_by(|a, b| self.compare(a, b));
    }

    fn compare(self, a: &Namespace, b: &Namespace) -> Ordering {
        use NetnsColumn as C;
        let number = |value: fn(&Namespace) -> Option<u64>| self.order(value(a), value(b), Ord::cmp);
        match self.column {
            C::Name => {
                let rank = a.names.is_empty().cmp(&b.names.is_empty());
                rank.then_with(|| {
                    self.order(super::first_name(a), super::first_name(b), |a, b| {
                        natural_order(a, b)
                    })
                })
            }
            C::Container => {
                let text = |namespace: &Namespace| namespace.container.clone();
                self.order(text(a), text(b), |a, b| natural_order(a.as_bytes(), b.as_bytes()))
            }
            C::Id => number(|namespace| namespace.id.and_then(|id| u64::try_from(id).ok())),
            C::Inode => number(|namespace| Some(namespace.inode.0.into())),
            C::Pids => number(|namespace| namespace.processes.map(u64::from)),
            C::Threads => number(|namespace| namespace.threads.map(u64::from)),
            C::Sockets => number(|namespace| namespace.sockets),
            C::Interfaces => number(|namespace| namespace.interfaces.map(u64::from)),
            C::Age => number(|namespace| namespace.age.map(|age| age.seconds)),
            C::Own => number(|namespace| Some(namespace.is_own.into())),
            C::Leaked => number(|namespace| namespace.is_leaked().map(u64::from)),
            C::KeptBy => number(|namespace| Some(super::cell::keepers_of(namespace))),
        }
    }

    fn order<T>(self, a: Option<T>, b: Option<T>, compare: impl Fn(&T, &T) -> Ordering) -> Ordering {
        match (a, b) {
            (Some(a), Some(b)) if self.descending => compare(&b, &a),
            (Some(a), Some(b)) => compare(&a, &b),
            (a, b) => b.is_some().cmp(&a.is_some()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sockeye_model::{NetnsInode, NetnsName};

    #[test]
    fn names() {
        for column in NetnsColumn::ALL {
            assert_eq!(NetnsColumn::from_name(column.name()), Ok(*column));
            assert_eq!(NetnsColumn::from_name(column.header()), Ok(*column));
        }
        let error = NetnsColumn::parse_list("name,socket").unwrap_err();
        assert_eq!(error.nearest.as_deref(), Some("sockets"));
        assert!(NetnsColumn::parse_list("").is_err());
    }

    #[test]
    fn what_is_absent_comes_last() {
        let mut all: Vec<Namespace> = (1..=4).map(|inode| Namespace::new(NetnsInode(inode))).collect();
        all[0].sockets = Some(5);
        all[2].sockets = Some(50);
        all[1].names = vec![NetnsName::new("web10").unwrap()];
        all[3].names = vec![NetnsName::new("web2").unwrap()];
        let mut order = |key: &str| {
            NetnsSortKey::parse(key).unwrap().sort(&mut all);
            all.iter().map(|namespace| namespace.inode.0).collect::<Vec<_>>()
        };
        assert_eq!(order("inode"), [1, 2, 3, 4]);
        assert_eq!(order("-inode"), [4, 3, 2, 1]);
        assert_eq!(order("-sockets"), [3, 1, 4, 2]);
        assert_eq!(order("sockets"), [1, 3, 4, 2]);
        assert_eq!(order("name"), [4, 2, 1, 3]);
        assert_eq!(order("-name"), [2, 4, 1, 3]);
        assert!(NetnsSortKey::parse("size").is_err());
    }
}
