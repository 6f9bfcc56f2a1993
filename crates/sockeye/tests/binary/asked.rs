//! The binary on a terminal where somebody answers its question.

use super::command;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use sockeye_lab::Namespace;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Stdio};

/// It has put its question and waits.
#[derive(Debug)]
pub(crate) struct Asked {
    child: Child,
    main: File,
    said: Vec<u8>,
}

impl Asked {
    /// Runs it with these words in a namespace until it asks.
    #[track_caller]
    pub(crate) fn after(namespace: &Namespace, line: &str) -> Self {
        let main = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&main).expect("a terminal");
        unlockpt(&main).expect("a terminal");
        let name = ptsname(&main, Vec::new()).expect("a terminal has a name");
        let terminal = || {
            let file = File::options()
                .read(true)
                .write(true)
                .open(name.to_str().expect("its name is ASCII"));
            Stdio::from(OwnedFd::from(file.expect("a terminal can be opened")))
        };
        let mut command = command();
        command
            .args(line.split_whitespace())
            .stdin(terminal())
            .stdout(terminal())
            .stderr(terminal());
        let child = namespace.run(|| command.spawn().expect("the program starts"));
        let mut asked = Self {
            child,
            main: File::from(main),
            said: Vec::new(),
        };
        while !asked.said.ends_with(b"[y/N] ") {
            let mut byte = [0];
            // The last one to leave a terminal makes reading fail.
            let read = asked.main.read(&mut byte).unwrap_or(0);
            assert!(read > 0, "no question: {}", String::from_utf8_lossy(&asked.said));
            asked.said.push(byte[0]);
        }
        asked
    }

    /// Types this, and gives all that was said, with the exit status.
    pub(crate) fn answer(mut self, text: &str) -> (String, Option<i32>) {
        self.main
            .write_all(text.as_bytes())
            .expect("a terminal takes text");
        let _ = self.main.read_to_end(&mut self.said);
        let code = self.child.wait().expect("it ends").code();
        (String::from_utf8_lossy(&self.said).into_owned(), code)
    }
}
