//! By what means functions of the kernel are watched: many at once, one by one, or with a program for each.

use super::attach::{Attached, Failure, Place, Probe, REFUSED_MAX, Refused, Source, errno_is_of_one, take};
use rustix::io::Errno;
use sockeye_sys::bpf::{Kind, LoadError, LoadedObject, ProbePoint, Program};
use sockeye_wire::functions as wire;
use std::ffi::{CStr, CString};

/// The means, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KernelWish {
    /// Linux 5.18, with CONFIG_FPROBE.
    Many,
    /// An event for each entry, and each return: with CONFIG_KPROBE_EVENTS (cookies: Linux 5.15).
    Single,
    /// A program for each entry, and each exit: with BTF, and ftrace's direct calls (cookies: Linux 5.19).
    Traced,
}

/// The same, loaded.
#[derive(Debug)]
pub(super) enum KernelMeans {
    /// One link for all entries, another for all returns.
    Many { entered: Program, left: Program },
    Single {
        entered: Program,
        left: Program,
        source: Source,
    },
    /// For each function, in their order.
    Traced(Vec<Result<Pair, Errno>>),
}

/// Of one function.
#[derive(Debug)]
pub(super) struct Pair {
    began: Program,
    ended: Program,
}

impl KernelWish {
    pub(super) const ALL: [Self; 3] = [Self::Many, Self::Single, Self::Traced];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Many => "kprobe_multi",
            Self::Single => "kprobes, one by one",
            Self::Traced => "fentry and fexit",
        }
    }

    /// More functions than that are not watched by these means.
    pub(super) const fn functions_max(self) -> usize {
        match self {
            Self::Many => usize::MAX,
            Self::Single => SINGLE_MAX,
            Self::Traced => TRACED_MAX,
        }
    }

    pub(super) fn programs<'a>(self, names: &[&'a str]) -> Vec<(&'a str, Kind<'a>)> {
        match self {
            Self::Many => vec![
                (wire::ENTERED, Kind::KernelProbes),
                (wire::LEFT, Kind::KernelProbes),
            ],
            Self::Single => vec![(wire::ENTERED, Kind::Probe), (wire::LEFT, Kind::Probe)],
            Self::Traced => names
                .iter()
                .flat_map(|name| [(wire::BEGAN, Kind::Entry(name)), (wire::ENDED, Kind::Exit(name))])
                .collect(),
        }
    }
}

impl KernelMeans {
    pub(super) fn of(wish: KernelWish, loaded: &mut LoadedObject, names: &[&str]) -> Result<Self, Failure> {
        Ok(match wish {
            KernelWish::Many => Self::Many {
                entered: take(loaded, wire::ENTERED)?,
                left: take(loaded, wire::LEFT)?,
            },
            KernelWish::Single => Self::Single {
                entered: take(loaded, wire::ENTERED)?,
                left: take(loaded, wire::LEFT)?,
                source: Source::of("kprobe")
                    .map_err(|errno| Failure::System("find the kernel's source of kprobes", errno))?,
            },
            KernelWish::Traced => Self::Traced(
                names
                    .iter()
                    .map(|name| {
                        Ok(Pair {
                            began: loaded
                                .program_of(wire::BEGAN, name)
                                .map_err(|error| errno(&error))?,
                            ended: loaded
                                .program_of(wire::ENDED, name)
                                .map_err(|error| errno(&error))?,
                        })
                    })
                    .collect(),
            ),
        })
    }

    pub(super) const fn wish(&self) -> KernelWish {
        match self {
            Self::Many { .. } => KernelWish::Many,
            Self::Single { .. } => KernelWish::Single,
            Self::Traced(_) => KernelWish::Traced,
        }
    }

    /// Attaches them to functions, whose cookies are their places in `names`. Returns come first: an entry without the
    /// return would be a call that never ends.
    pub(super) fn attach(&self, names: &[CString], links: &mut Vec<Attached>) -> Refused {
        let mut refused = Refused::new();
        match self {
            Self::Many { entered, left } => {
                let mut probes: Vec<(usize, &CStr)> =
                    names.iter().map(CString::as_c_str).enumerate().collect();
                link_many(left, &probes, ProbePoint::Return, links, &mut refused);
                probes.retain(|(place, _)| !refused.iter().any(|(known, _)| known == place));
                link_many(entered, &probes, ProbePoint::Entry, links, &mut refused);
            }
            Self::Single {
                entered,
                left,
                source,
            } => {
                for (place, name) in names.iter().enumerate() {
                    // Where nothing works, hundreds more need not be tried.
                    if refused.len() == place && place >= HOPELESS {
                        refused.push((place, refused[0].1));
                        continue;
                    }
                    let probe = Probe {
                        place,
                        offset: 0,
                        cookie: place as u64,
                    };
                    let link = |program, moment| {
                        let at = Place {
                            path: name,
                            moment,
                            process: None,
                        };
                        source.link(program, at, &probe)
                    };
                    let pair = link(left, ProbePoint::Return)
                        .and_then(|exit| Ok([exit, link(entered, ProbePoint::Entry)?]));
                    match pair {
                        Ok(pair) => links.extend(pair),
                        Err(errno) => refused.push((place, errno)),
                    }
                }
            }
            Self::Traced(pairs) => {
                for (place, pair) in pairs.iter().enumerate() {
                    let attached = pair.as_ref().map_err(|errno| *errno).and_then(|pair| {
                        let exit = pair.ended.attach_traced(Kind::Exit(""), place as u64)?;
                        Ok([exit, pair.began.attach_traced(Kind::Entry(""), place as u64)?])
                    });
                    match attached {
                        Ok(pair) => links.extend(pair.map(Attached::of)),
                        Err(errno) => refused.push((place, errno)),
                    }
                }
            }
        }
        refused
    }
}

/// Attaches a program to all of them at once; if the kernel refuses, to each half, until those are found that it does not
/// like.
fn link_many(
    program: &Program,
    probes: &[(usize, &CStr)],
    moment: ProbePoint,
    links: &mut Vec<Attached>,
    refused: &mut Refused,
) {
    if probes.is_empty() {
        return;
    }
    let (cookies, names): (Vec<u64>, Vec<&CStr>) =
        probes.iter().map(|(place, name)| (*place as u64, *name)).unzip();
    match program.attach_kernel_probes(&names, &cookies, moment) {
        Ok(link) => links.push(Attached::of(link)),
        Err(errno) if probes.len() == 1 || refused.len() >= REFUSED_MAX || !is_of_one(errno) => {
            refused.extend(probes.iter().map(|(place, _)| (*place, errno)));
        }
        Err(_) => {
            let (one, other) = probes.split_at(probes.len() / 2);
            link_many(program, one, moment, links, refused);
            link_many(program, other, moment, links, refused);
        }
    }
}

/// Whether one of many may be to blame, and not the kernel, which has no such links at all (`EOPNOTSUPP`).
fn is_of_one(errno: Errno) -> bool {
    errno_is_of_one(errno) && errno != Errno::OPNOTSUPP
}

fn errno(error: &LoadError) -> Errno {
    match error {
        LoadError::System(_, errno) | LoadError::Rejected(errno, _) => *errno,
        _ => Errno::INVAL,
    }
}

/// Some ten milliseconds it takes the kernel to begin an event, and to end it, and there are two for each function.
const SINGLE_MAX: usize = 50;

/// Likewise a program.
const TRACED_MAX: usize = 50;

/// When so many were refused one after the other, the rest will be.
const HOPELESS: usize = 20;

#[cfg(test)]
mod tests {
    use super::super::attach::Probes;
    use super::*;
    use sockeye_lab::Skip;
    use sockeye_source::BpfEngine;
    use std::fs::File;
    use std::io::Write;

    #[test]
    fn each_means_sees_calls_and_does_without_what_the_kernel_has_not() {
        let engine = BpfEngine::default();
        let names = [c"no_such_function".to_owned(), c"vfs_write".to_owned()];
        let us = std::process::id().to_ne_bytes();
        let settings = wire::Settings {
            scope: wire::Scope::Members,
            pid_namespace: crate::pid_namespace::own(),
            return_bytes: if cfg!(target_arch = "x86_64") { 8 } else { 0 },
            in_kernel: true,
            own_process: 0,
            paused: false,
        };
        for wish in KernelWish::ALL {
            let mut probes = match Probes::load_kernel(&engine, wish, &names) {
                Ok(probes) => probes,
                Err(failure) => {
                    Skip::new(format!("{}: {failure}", wish.name())).tell();
                    continue;
                }
            };
            let refused = probes.attach_kernel(&names);
            assert_eq!(refused.first().map(|(place, _)| *place), Some(0), "{wish:?}");
            if let Some((_, errno)) = refused.get(1) {
                Skip::new(format!("{}: {errno}", wish.name())).tell();
                continue;
            }
            let tables = &probes.tables;
            tables.settings.update(&[0; 4], &settings.bytes()).unwrap();
            tables.members.update(&us, &1_u32.to_ne_bytes()).unwrap();
            let mut nowhere = File::create("/dev/null").unwrap();
            for _ in 0..CALLS {
                nowhere.write_all(b"x").unwrap();
            }
            let key = [us, 1_u32.to_ne_bytes()].concat();
            let mut counts = [0; wire::Counts::BYTES];
            assert!(tables.counts.lookup(&key, &mut counts).unwrap(), "{wish:?}");
            let counts = wire::Counts::read(&counts).unwrap();
            // Other tests write as well.
            assert!(
                counts.calls >= CALLS && counts.timed >= CALLS,
                "{wish:?} {counts:?}"
            );
            assert!(
                counts.self_ns <= counts.total_ns && counts.total_ns < 60_000_000_000,
                "{counts:?}"
            );
        }
    }

    const CALLS: u64 = 1000;
}
