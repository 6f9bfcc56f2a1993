//! Names of counters of network drivers, without the numbers of queues, rings, priorities and CPUs.

/// Names under which the dictionary may have a counter, the most likely first.
pub(crate) fn counter_names(name: &str) -> [String; 3] {
    let form = form(name);
    let mut bare = form.as_str();
    for prefix in ["port-", "veb-", "pf-", "vf-"] {
        bare = bare.strip_prefix(prefix).unwrap_or(bare);
    }
    for suffix in ["-nic", "-phy"] {
        bare = bare.strip_suffix(suffix).unwrap_or(bare);
    }
    [name.to_owned(), form.clone(), bare.to_owned()]
}

/// The name of a counter without the numbers of queues, rings, priorities and CPUs.
fn form(name: &str) -> String {
    let mut words: Vec<String> = Vec::new();
    for word in name
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
    {
        let letters = word.trim_end_matches(|c: char| c.is_ascii_digit());
        let is_numbered = letters.len() < word.len();
        let letters = letters.to_lowercase();
        if letters.is_empty() {
            // `queue_3`
            words.pop_if(|last| PLACE_WORDS.contains(&last.as_str()));
        } else if !(is_numbered && PLACE_WORDS.contains(&letters.as_str())) && words.last() != Some(&letters)
        {
            words.push(letters);
        }
    }
    words.join("-")
}

/// Words before the number of a queue.
const PLACE_WORDS: [&str; 8] = ["queue", "q", "txq", "rxq", "ring", "cpu", "tc", "pb"];
