//! `sockeye ss` compared with the real ss, on the same live sockets: options x protocols x states x filters, compared
//! byte for byte but for the values that move ([`mask`]) and the order of the records.
//!
//! To look at a part only, `SOCKEYE_SS_ONLY='state listening'` walks the combinations whose command line holds these words.
//! Every difference is written to a file in `target/tmp`, the first ones are shown.

mod files;
mod mask;
mod matrix;
mod releases;
mod run;
mod socket_set;
mod special;
mod vocabulary;
mod walk;

use self::socket_set::SocketSet;
use run::{Case, Programs};
use sockeye_lab::need;

/// Combinations in which the real ss has a defect, and we differ: the command line as the
/// test prints it, and why.
const EXPLAINED: &[(&str, &str)] = &[
    ("ss -4an sport = ntp", SERVICE_OF_UDP),
    ("ss -6an sport = ntp", SERVICE_OF_UDP),
    ("ss -an sport = ntp", SERVICE_OF_UDP),
    (
        "ss -f xdp -an src 1",
        "ss has the resolver look up a host of a family that has no hosts",
    ),
];

/// What is left is the last service of `/etc/services`, at port 60179: it differs where a socket has that port by chance.
const SERVICE_OF_UDP: &str =
    "a service of UDP only, asked for with TCP: ss looks at what getservbyname() left of its first answer";

// Every combination is in one of these four, so that none takes long on a busy machine.
#[test]
fn output_is_that_of_ss_for_combinations_1_5_9() {
    of_installed(0);
}

#[test]
fn output_is_that_of_ss_for_combinations_2_6_10() {
    of_installed(1);
}

#[test]
fn output_is_that_of_ss_for_combinations_3_7_11() {
    of_installed(2);
}

#[test]
fn output_is_that_of_ss_for_combinations_4_8_12() {
    of_installed(3);
}

/// Compares with the installed ss: each fourth combination from the one at `first` on.
fn of_installed(first: usize) {
    let socket_set = need!(SocketSet::open(&format!("ss{first}")));
    let programs = Programs::new(&socket_set);
    let cases = matrix::cases(&socket_set).into_iter().skip(first).step_by(4);
    walk::walk(
        &socket_set,
        &programs,
        cases.collect(),
        &format!("ss part {first}"),
    );
}

#[test]
fn output_is_that_of_ss_6_1_for_odd_combinations() {
    of_release("6.1", 0);
}

#[test]
fn output_is_that_of_ss_6_1_for_even_combinations() {
    of_release("6.1", 1);
}

#[test]
fn output_is_that_of_ss_6_15_for_odd_combinations() {
    of_release("6.15", 0);
}

#[test]
fn output_is_that_of_ss_6_15_for_even_combinations() {
    of_release("6.15", 1);
}

#[test]
fn output_is_that_of_ss_7_3_for_odd_combinations() {
    of_release("7.3", 0);
}

#[test]
fn output_is_that_of_ss_7_3_for_even_combinations() {
    of_release("7.3", 1);
}

/// Compares with ss of a release: all combinations that are about what differs between releases, and a sample of the others; of
/// these each second one from the one at `first` on.
fn of_release(release: &str, first: usize) {
    let purpose = format!("ss{}_{first}", release.replace('.', "_"));
    let socket_set = need!(SocketSet::open(&purpose));
    let programs = need!(Programs::of_release(&socket_set, release));
    let mut cases = releases::cases();
    let others = matrix::cases(&socket_set);
    let step = if std::env::var_os("SOCKEYE_SS_ONLY").is_some() {
        1
    } else {
        SAMPLE
    };
    cases.extend(others.into_iter().step_by(step));
    let half = cases.into_iter().skip(first).step_by(2).collect();
    walk::walk(
        &socket_set,
        &programs,
        half,
        &format!("ss {release} part {first}"),
    );
}

/// `sockeye ss` does as a link called `ss` does, errors included.
#[test]
fn the_word_means_what_the_name_means() {
    let socket_set = need!(SocketSet::open("word"));
    let lines = [
        "-tan",
        "-xanp",
        "-tuane",
        "-q",
        "-V",
        "-h",
        "-t nonsense",
        "-tan sport = 22",
        "-s",
        "--nonsense",
        "-A nonsense",
        "-wan -t",
    ];
    let cases = lines.map(Case::of).to_vec();
    walk::walk(&socket_set, &Programs::by_word(), cases, "sockeye ss");
}

/// What is masked suffices, and the socket set does not change: the real ss differs from itself in nothing else.
#[test]
fn real_ss_equals_itself() {
    let socket_set = need!(SocketSet::open("quiet"));
    let cases = matrix::cases(&socket_set);
    let sample = match std::env::var_os("SOCKEYE_SS_ONLY") {
        Some(_) => cases,
        None => cases.into_iter().step_by(SAMPLE).collect(),
    };
    walk::walk(&socket_set, &Programs::real_twice(), sample, "ss with itself");
}

const SAMPLE: usize = 15;
