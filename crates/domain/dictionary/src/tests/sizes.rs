//! Look-ups of hostile texts: 120 KB take no longer than the eye notices.

use sockeye_dictionary::Dictionary;
use std::fs;
use std::time::Duration;

/// The bound is far above what the unoptimised build needs (30 ms), and far below what one quadratic step costs. It is of processor time,
/// because other tests run at the same time and come first.
#[test]
fn text_of_120_kb_is_looked_up_in_a_second() {
    let dictionary = Dictionary::new();
    let texts: Vec<String> = dictionary
        .entries()
        .flat_map(|entry| &entry.texts)
        .map(|text| text.replace(['{', '}'], ""))
        .collect();
    let texts = texts.join(" ");
    let long = |piece: &str| piece.repeat(LEN / piece.len() + 1);
    let distinct_words: String = (0..LEN / 8).map(|nth| format!("w{nth:06} ")).collect();
    for text in [
        long("a"),
        long("1234567890"),
        long("abc "),
        distinct_words,
        [long("a"), long("b"), long("c"), long("d")].join(" "),
        long(" "),
        long(": "),
        long("a."),
        long("a_b="),
        long("["),
        long("[1.1]"),
        long("\"\\"),
        long("net.ipv4.conf."),
        long("TCP_X "),
        long("TcpExtListenOverflows "),
        format!("{{\"MESSAGE\":\"{}", long("\\\"")),
        format!("e1000e 0000:00:1f.6 eth0: {}", long(&texts)),
    ] {
        let start = processor_time();
        let _ = std::hint::black_box(dictionary.find(&text));
        let mut log = dictionary.log();
        log.line(text.as_bytes());
        // Lines of all lengths: each begins in another place.
        for line in text.as_bytes().chunks(997) {
            log.line(line);
        }
        let took = processor_time() - start;
        assert!(took < Duration::from_secs(1), "{took:?} for {text:.40}...");
    }
}

/// That this thread has used.
fn processor_time() -> Duration {
    let figures = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(figures.split(' ').next().unwrap().parse().unwrap())
}

const LEN: usize = 120_000;
