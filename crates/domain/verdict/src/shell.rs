//! Quoting for the shell commands that Sockeye proposes: in the remedies of `check` and in the report of
//! `bench tun`. It guards against names from outside that would run as commands.

/// Quotes a text as one word for a shell: names from outside may contain `;` and `$( )`.
///
/// ```
/// use sockeye_verdict::shell_word;
///
/// assert_eq!(shell_word("eth0.5"), "eth0.5");
/// assert_eq!(shell_word("a;reboot"), "'a;reboot'");
/// assert_eq!(shell_word("a'b"), r"'a'\''b'");
/// ```
#[must_use]
pub fn shell_word(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./@:+,".contains(&byte);
    if !text.is_empty() && text.bytes().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}
