//! Chromium, driven through its pipe: https://chromedevtools.github.io/devtools-protocol/

use serde_json::{Value, json};
use sockeye_lab::{Skip, program};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A browser with one page.
pub(in crate::commands) struct Browser {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    session: Option<String>,
    last_id: u64,
    /// Errors that the page has reported.
    errors: Vec<String>,
    profile: PathBuf,
}

impl Browser {
    /// Starts it with an empty page; a [`Skip`] if there is none here.
    pub(in crate::commands) fn start(purpose: &str) -> Result<Self, Skip> {
        let names = ["chromium-headless-shell", "chromium"];
        let name = names.into_iter().find(|name| program(name).is_ok());
        let name = name.ok_or_else(|| Skip::new("no chromium-headless-shell or chromium here"))?;
        let profile = std::env::temp_dir().join(format!("sockeye-serve-{purpose}-{}", std::process::id()));
        let mut child = Command::new("sh")
            // It reads commands from descriptor 3, and answers on 4.
            .args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 >/dev/null 2>&1", name])
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--remote-debugging-pipe",
            ])
            .arg(format!("--user-data-dir={}", profile.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell");
        let input = child.stdin.take().expect("a pipe");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut browser = Self {
            child,
            input,
            output,
            session: None,
            last_id: 0,
            errors: Vec::new(),
            profile,
        };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = browser.call("Target.attachToTarget", attach);
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        Ok(browser)
    }

    pub(in crate::commands) fn open(&mut self, url: &str) {
        self.call("Page.navigate", json!({ "url": url }));
    }

    pub(in crate::commands) fn resize(&mut self, width: u32, height: u32) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500 });
        self.call("Emulation.setDeviceMetricsOverride", size);
    }

    /// Runs a function body in the page, and returns what it returns. It may wait with `await until(() => ...)`.
    #[track_caller]
    pub(in crate::commands) fn run(&mut self, script: &str) -> Value {
        let expression = format!(
            "(async () => {{ const until = async (holds) => {{ for (let turn = 0; turn < 600; turn++) {{ \
             try {{ const value = await holds(); if (value) return value; }} catch {{}} \
             await new Promise((done) => setTimeout(done, 50)); }} throw new Error('never: ' + holds); }};\n{script}\n}})()"
        );
        let evaluate = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let outcome = self.call("Runtime.evaluate", evaluate);
        let failed = &outcome["exceptionDetails"];
        assert!(
            failed.is_null(),
            "{failed}\nerrors of the page: {:?}",
            self.errors
        );
        outcome["result"]["value"].clone()
    }

    /// Writes what the page shows as a PNG, to look at it.
    pub(in crate::commands) fn screenshot(&mut self, path: &std::path::Path) {
        let answer = self.call("Page.captureScreenshot", json!({ "format": "png" }));
        let decoded = Command::new("base64")
            .arg("-d")
            .stdin(Stdio::piped())
            .stdout(std::fs::File::create(path).expect("a file"))
            .spawn();
        let mut decoded = decoded.expect("base64 starts");
        let text = answer["data"].as_str().expect("a picture");
        let mut input = decoded.stdin.take().expect("a pipe");
        input.write_all(text.as_bytes()).expect("it reads");
        drop(input);
        decoded.wait().expect("it ends");
    }

    /// Presses a key.
    pub(in crate::commands) fn key(&mut self, key: &str) {
        let text = if key.len() == 1 { key } else { "" };
        // Dialogs look at the code.
        let code = if key == "Escape" { 27 } else { 0 };
        for kind in ["keyDown", "keyUp"] {
            let press = json!({ "type": kind, "key": key, "text": text, "windowsVirtualKeyCode": code });
            self.call("Input.dispatchKeyEvent", press);
        }
    }

    /// Returns the errors that the page has reported so far.
    pub(in crate::commands) fn errors(&mut self) -> Vec<String> {
        // What was reported before the answer is read now.
        self.run("return 1");
        std::mem::take(&mut self.errors)
    }

    #[track_caller]
    fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.last_id += 1;
        let mut message = json!({ "id": self.last_id, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        self.input
            .write_all(format!("{message}\0").as_bytes())
            .expect("the browser reads");
        loop {
            let mut bytes = Vec::new();
            self.output
                .read_until(0, &mut bytes)
                .expect("the browser answers");
            bytes.pop();
            let message: Value = serde_json::from_slice(&bytes).expect("the browser answers with JSON");
            if message["id"] == json!(self.last_id) {
                assert!(message["error"].is_null(), "{method}: {message}");
                return message["result"].clone();
            }
            self.record(&message);
        }
    }

    fn record(&mut self, event: &Value) {
        let parameters = &event["params"];
        let is_error = match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => true,
            Some("Log.entryAdded") => parameters["entry"]["level"] == "error",
            Some("Runtime.consoleAPICalled") => parameters["type"] == "error",
            _ => false,
        };
        if is_error {
            self.errors.push(parameters.to_string());
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It ends its other processes itself.
        drop(self.input.write_all(b"{\"id\":0,\"method\":\"Browser.close\"}\0"));
        drop(self.child.wait());
        drop(std::fs::remove_dir_all(&self.profile));
    }
}
