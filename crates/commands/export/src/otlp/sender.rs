//! Sends requests on a thread of its own: a collector that is slow or away delays no sample.

use anyhow::Context;
use bytes::Bytes;
use hyper::header::HeaderMap;
use sockeye_console::notes::say;
use sockeye_http::{PostLimits, Target, post};
use sockeye_output::text::harmless_start;
use std::sync::mpsc;
use std::thread;
use tokio::runtime::{Builder, Runtime};

/// Takes requests for the thread that sends them.
pub(super) struct Sender(mpsc::SyncSender<Vec<u8>>);

impl Sender {
    /// Starts the thread, which ends with the process.
    pub(super) fn start(target: Target, headers: HeaderMap) -> anyhow::Result<Self> {
        let (sender, requests) = mpsc::sync_channel(1);
        let runtime = Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .context("start the sender")?;
        let work = move || send_all(&runtime, &target, &headers, &requests);
        let started = thread::Builder::new().name("sender".to_owned()).spawn(work);
        started.context("start the thread of the sender")?;
        Ok(Self(sender))
    }

    /// Hands over a request. While one waits it is left out: the next one has the same totals, and more.
    pub(super) fn send(&self, request: Vec<u8>) {
        drop(self.0.try_send(request));
    }
}

/// Sends requests, and notes when that begins to fail and when it works again.
fn send_all(runtime: &Runtime, target: &Target, headers: &HeaderMap, requests: &mpsc::Receiver<Vec<u8>>) {
    let mut last_problem = None;
    for request in requests {
        let problem = runtime
            .block_on(send(target, headers.clone(), request.into()))
            .err();
        if problem != last_problem {
            say(&match &problem {
                Some(problem) => format!("sockeye: {target}: {problem}; trying again with the next sample\n"),
                None => format!("sockeye: {target}: metrics are taken again\n"),
            });
            last_problem = problem;
        }
    }
}

/// Sends a request. Returns what went wrong.
async fn send(target: &Target, headers: HeaderMap, request: Bytes) -> Result<(), String> {
    let reply = post(target, None, headers, request, PostLimits::SMALL)
        .await
        .map_err(|error| format!("{:#}", anyhow::Error::from(error)))?;
    if reply.status.is_success() {
        return Ok(());
    }
    let text = harmless_start(&reply.body, TEXT_MAX);
    Err(format!(
        "the collector answered {}: {}",
        reply.status,
        text.trim()
    ))
}

/// Characters of an answer that are shown.
const TEXT_MAX: usize = 200;
