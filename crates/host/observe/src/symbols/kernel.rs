//! The functions of the kernel, its modules and BPF programs, from `/proc/kallsyms`.

use crate::Unavailable;
use sockeye_profile::{Frame, Space};
use sockeye_sys::rights::{CheckedIn, remedy};
use std::fs::File;
use std::io::{self, Read};

/// Functions of the kernel, sorted by address.
#[derive(Debug, Default)]
pub(crate) struct Kernel {
    /// Address, and offset of the name in `text`.
    functions: Vec<(u64, u32)>,
    text: Vec<u8>,
    /// Why names are missing; `None` if they are not.
    pub(crate) unavailable: Option<Unavailable>,
}

impl Kernel {
    /// Reads the current functions of the kernel.
    pub(crate) fn read() -> Self {
        let mut text = Vec::with_capacity(8 << 20);
        // The file has no size: read to its end.
        let read = File::open(PATH).and_then(|file| file.take(MAX_TEXT).read_to_end(&mut text));
        let mut kernel = Self::parse(text);
        kernel.unavailable = match read {
            Err(error) => Some(unreadable(&error)),
            Ok(_) if kernel.functions.is_empty() => Some(
                Unavailable::new(
                    "symbols",
                    format!("names of kernel functions: {PATH} shows no addresses to us"),
                )
                .with_remedy(format!(
                    "{}, and sysctl kernel.kptr_restrict=1 if it is 2; without that right it must be 0 and \
                     kernel.perf_event_paranoid at most 1",
                    remedy("CAP_SYSLOG", CheckedIn::Initial)
                )),
            ),
            Ok(_) => None,
        };
        kernel
    }

    /// Parses the text of `/proc/kallsyms`.
    pub(super) fn parse(text: Vec<u8>) -> Self {
        let mut functions = Vec::with_capacity(text.len() / 40);
        let mut at = 0;
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            let begin = at;
            at += line.len();
            // `ffffffff81000000 T _stext\t[module]`, the address of 16 digits, or 8.
            let Some(digits) = line.iter().position(|byte| *byte == b' ') else {
                continue;
            };
            let [b' ', b't' | b'T' | b'w' | b'W', b' ', name @ ..] = &line[digits..] else {
                continue;
            };
            let Some(address) = address(&line[..digits]) else {
                continue;
            };
            // The kernel shows 0 without the right to see addresses; per-CPU offsets are at 0 too.
            if address == 0 || matches!(name, [] | [b'\n' | b'\t', ..]) {
                continue;
            }
            if functions.len() == MAX_FUNCTIONS {
                break;
            }
            functions.push((address, u32::try_from(begin + digits + 3).unwrap_or(u32::MAX)));
        }
        functions.sort_by_key(|(address, _)| *address);
        Self {
            functions,
            text,
            unavailable: None,
        }
    }

    /// Returns the function at an address.
    pub(crate) fn frame(&self, address: u64) -> Frame {
        let (function, module) = self.find(address).map_or((None, None), |(name, module)| {
            (Some(String::from_utf8_lossy(name).into_owned()), module)
        });
        let module = module.map_or_else(
            || "kernel".to_owned(),
            |name| String::from_utf8_lossy(name).into_owned(),
        );
        Frame {
            offset: function.is_none().then_some(address),
            function,
            module: Some(module),
            space: Space::Kernel,
        }
    }

    /// Returns the name of the function at an address, and its module.
    fn find(&self, address: u64) -> Option<(&[u8], Option<&[u8]>)> {
        let behind = self.functions.partition_point(|(start, _)| *start <= address);
        let (start, _) = *self.functions[..behind].last()?;
        let first = self.functions[..behind].partition_point(|(other, _)| *other < start);
        // Of several names at one address the one with the fewest leading underscores: `_stext` is no function.
        let (name, module) = self.functions[first..behind]
            .iter()
            .take(MAX_NAMESAKES)
            .map(|(_, offset)| self.name_and_module(*offset))
            .min_by_key(|(name, _)| name.iter().take_while(|byte| **byte == b'_').count())?;
        // The length of the last function of a module or BPF program is unknown, and others may have been loaded since.
        let most = match module {
            None => MAX_OWN,
            Some(b"bpf") => MAX_BPF,
            Some(_) => MAX_MODULE,
        };
        let is_label = matches!(name, b"_etext" | b"_end" | b"_einittext" | b"__bss_stop");
        (!is_label && address - start < most).then_some((name, module))
    }

    /// Returns the name at an offset of the text, and its module.
    fn name_and_module(&self, offset: u32) -> (&[u8], Option<&[u8]>) {
        let rest = self.text.get(offset as usize..).unwrap_or_default();
        let line = rest.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let mut parts = line.split(|byte| *byte == b'\t');
        let name = parts.next().unwrap_or_default();
        let module = parts
            .next()
            .and_then(|module| module.strip_prefix(b"[")?.strip_suffix(b"]"))
            .filter(|module| !module.is_empty());
        (name, module)
    }
}

/// Parses a hexadecimal address of up to 16 digits.
fn address(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > 16 {
        return None;
    }
    digits.iter().try_fold(0, |so_far, digit| {
        let value = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(so_far << 4 | u64::from(value))
    })
}

/// Returns the report for an unreadable file.
fn unreadable(error: &io::Error) -> Unavailable {
    Unavailable::new(
        "symbols",
        format!("names of kernel functions: read {PATH}: {error}"),
    )
}

const PATH: &str = "/proc/kallsyms";
const MAX_TEXT: u64 = 64 << 20;
const MAX_FUNCTIONS: usize = 1_000_000;
const MAX_NAMESAKES: usize = 16;

/// The assumed longest function of the kernel image, in bytes.
const MAX_OWN: u64 = 1 << 20;

/// The assumed longest function of a module.
const MAX_MODULE: u64 = 64 << 10;

/// The assumed longest BPF program: they are adjacent, and are loaded and unloaded.
const MAX_BPF: u64 = 16 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
0000000000000000 A fixed_percpu_data
ffffffff81000000 T _stext
ffffffff81000000 T _text
ffffffff81000000 T srso_alias_untrain_ret
ffffffff81000100 t do_wait
ffffffff81000080 W weak_one
ffffffff81000200 D some_data
ffffffff81000300 T _etext
ffffffffc0201000 t xt_hook\t[x_tables]
ffffffffc0205000 t bpf_prog_6deef7357e7b4530_look\t[bpf]
nonsense
ffffffffc0206000 t ";

    #[test]
    fn frame_has_name_and_module() {
        let kernel = Kernel::parse(TEXT.as_bytes().to_vec());
        let frame = |address| {
            let frame = kernel.frame(address);
            assert_eq!(frame.space, Space::Kernel);
            (frame.function, frame.module.unwrap(), frame.offset)
        };
        let function = |name: &str, module: &str| (Some(name.to_owned()), module.to_owned(), None);
        let unknown = |address| (None, "kernel".to_owned(), Some(address));
        assert_eq!(
            frame(0xffff_ffff_8100_0000),
            function("srso_alias_untrain_ret", "kernel")
        );
        assert_eq!(frame(0xffff_ffff_8100_00ff), function("weak_one", "kernel"));
        assert_eq!(frame(0xffff_ffff_8100_02ff), function("do_wait", "kernel"));
        assert_eq!(
            frame(0xffff_ffff_8100_0310),
            unknown(0xffff_ffff_8100_0310),
            "behind the end"
        );
        assert_eq!(frame(0xffff_ffff_c020_1008), function("xt_hook", "x_tables"));
        assert_eq!(
            frame(0xffff_ffff_c020_5010),
            function("bpf_prog_6deef7357e7b4530_look", "bpf")
        );
        assert_eq!(frame(0xffff_ffff_c030_0000), unknown(0xffff_ffff_c030_0000));
        assert_eq!(frame(0x1000), unknown(0x1000));
    }

    #[test]
    fn line_without_name_is_ignored() {
        let text = b"ffffffff81000000 T \nffffffff81000010 t \t[bpf]\nffffffff81000020 T last\t[]\n";
        let kernel = Kernel::parse(text.to_vec());
        assert_eq!(kernel.frame(0xffff_ffff_8100_0000).function, None);
        assert_eq!(kernel.frame(0xffff_ffff_8100_0010).function, None);
        let last = kernel.frame(0xffff_ffff_8100_0020);
        assert_eq!(
            (last.function.as_deref(), last.module.as_deref()),
            (Some("last"), Some("kernel"))
        );
    }

    #[test]
    fn address_0_is_ignored() {
        let kernel = Kernel::parse(b"0000000000000000 T do_wait\n0000000000000000 t x\t[y]\n".to_vec());
        assert_eq!(kernel.frame(0).function, None);
        assert_eq!(kernel.frame(0xffff_ffff_8100_0000).function, None);
    }
}
