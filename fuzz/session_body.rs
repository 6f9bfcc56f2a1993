//! Body of the fuzz target `session_messages`, and of the test that replays its corpus: what the two ends of a benchmark
//! send each other. It is a module of `sockeye_load::session`.

use super::channel::{FRAME_MAX, Frames, frame};
use super::client::{server_nonce, token_of};
use super::connection::{REQUEST_HEAD_LEN, is_iperf3_cookie, parse_request, request_needs};
use super::limits::REQUEST_MAX;
use super::secret::{PROOF_LEN, SessionKey, hex, unhex};
use super::{Error, PREAMBLE_LEN, Preamble, Role, TAG_LEN, Token};
use crate::latency::Request;
use crate::stream::{Plan, STREAMS_MAX, count_datagrams, end_of, merge, stream_transfers};
use serde_json::{Value, json};

/// The first byte says what the rest is: a preamble, datagrams, a request to a server, or the frames of a control connection.
pub fn session_messages(bytes: &[u8]) {
    let Some((&kind, bytes)) = bytes.split_first() else {
        return;
    };
    match kind % 4 {
        0 => preambles(bytes),
        1 => datagrams(bytes),
        2 => requests(bytes),
        _ => frames(bytes, usize::from(kind / 4)),
    }
}

/// A preamble of 40 bytes, read from the first bytes of a connection or from a datagram.
fn preambles(bytes: &[u8]) {
    let first = &bytes[..bytes.len().min(PREAMBLE_LEN)];
    // Eight bytes are enough to distinguish it from a cookie of iperf3.
    assert!(first.len() < 8 || !Preamble::is_prefix(first) || !is_iperf3_cookie(first));
    let Some(preamble) = Preamble::parse(bytes) else {
        return;
    };
    assert!(Preamble::is_prefix(bytes));
    // Parsed, emitted and parsed, it is the same, and so are its bytes: none is ignored.
    assert_eq!(preamble.emit(), bytes[..PREAMBLE_LEN]);
    assert_eq!(Preamble::parse(&preamble.emit()), Some(preamble));
    assert_eq!(Token::parse(&preamble.token.to_string()), Some(preamble.token));
    let _ = preamble.check_version().map_err(|error| check_error(&error));
    let key = SessionKey::new(None, &preamble.token.0, &[7; 16]);
    // The answer to a datagram is never longer than that, and belongs to the same test.
    let welcome = preamble.welcome([9; TAG_LEN]);
    assert_eq!(welcome.role, Role::Welcome);
    let confirmation = key.confirmation(welcome);
    let Preamble { number, token, .. } = preamble;
    assert!(key.is_confirm_tag(number, token, &welcome.tag, &confirmation.tag));
    let is_known = key.is_data_tag(preamble.role, number, token, &preamble.tag);
    assert_eq!(
        is_known,
        key.preamble(preamble.role, token, number).tag == preamble.tag
    );
    assert_eq!(preamble.ready().emit().len(), PREAMBLE_LEN);
}

/// Datagrams of a UDP stream, 24 bytes each.
fn datagrams(bytes: &[u8]) {
    let (datagrams, _, reordered) = count_datagrams(bytes.chunks(24));
    assert!(datagrams <= bytes.len() as u64 / 24 && reordered <= datagrams);
}

/// A proof, and the request that follows it.
fn requests(bytes: &[u8]) {
    let needed = match request_needs(bytes) {
        Ok(needed) => needed,
        Err(error) => return check_error(&error),
    };
    // More bytes never change what a complete head needs, and the server never waits for more than its limit.
    assert!((REQUEST_HEAD_LEN..=REQUEST_HEAD_LEN + REQUEST_MAX).contains(&needed));
    let key = SessionKey::new(None, &[1; 16], &[2; 16]);
    if let (Some(proof), Some(text)) = (bytes.get(..PROOF_LEN), bytes.get(REQUEST_HEAD_LEN..)) {
        assert_eq!(key.is_client_proof(text, proof), key.client_proof(text) == *proof);
        request_text(&text[..text.len().min(REQUEST_MAX)]);
    }
}

fn request_text(text: &[u8]) {
    let (kind, parameters) = match parse_request(text) {
        Ok(request) => request,
        Err(error) => return check_error(&error),
    };
    let again = json!({"kind": kind.name(), "parameters": parameters}).to_string();
    if is_exact(&parameters) {
        assert_eq!(
            parse_request(again.as_bytes()).ok(),
            Some((kind, parameters.clone()))
        );
    }
    match Plan::from_json(&parameters) {
        Ok(plan) => {
            assert!((1..=STREAMS_MAX).contains(&plan.streams));
            // The other end reads the direction from its side, and our processor is its other one.
            let mirrored = Plan::from_json(&plan.to_json()).expect("its limits were checked");
            let back = Plan::from_json(&mirrored.to_json()).expect("its limits were checked");
            assert_eq!((mirrored.until, mirrored.omit), (plan.until, plan.omit));
            assert_eq!(
                Plan {
                    our_processor: plan.our_processor,
                    ..back
                },
                plan
            );
        }
        Err(reason) => assert!(reason.len() <= 200 + 6 * text.len(), "{reason}"),
    }
    match Request::parse(&parameters) {
        Ok(request) => request.check_limits(),
        Err(reason) => assert!(reason.len() <= 200 + 6 * text.len(), "{reason}"),
    }
}

/// Frames of either end, which arrive in pieces of `piece` bytes.
fn frames(bytes: &[u8], piece: usize) {
    let messages = all_frames(bytes, bytes.len().max(1));
    assert_eq!(
        messages,
        all_frames(bytes, piece + 1),
        "pieces make no difference"
    );
    let key = SessionKey::new(None, &[1; 16], &[2; 16]);
    let mut ours = Vec::new();
    for message in &messages {
        if is_exact(message)
            && let Ok(bytes) = frame(message)
        {
            assert_eq!(all_frames(&bytes, 7), std::slice::from_ref(message));
        }
        for has_secret in [false, true] {
            match server_nonce(message, has_secret) {
                Ok(nonce) => assert_eq!(unhex(&hex(&nonce)), Some(nonce)),
                Err(error) => check_error(&error),
            }
        }
        match token_of(message, &key) {
            Ok(token) => assert_eq!(Token::parse(&token.to_string()), Some(token)),
            Err(error) => check_error(&error),
        }
        let theirs: Vec<_> = stream_transfers(message).collect();
        assert!(theirs.len() <= bytes.len());
        if ours.is_empty() {
            ours.clone_from(&theirs);
        }
        merge(&mut ours, theirs);
        let end = end_of(&message["end"]);
        assert!(end.devices.len() <= 64);
        let texts = end.devices.iter().map(|device| &device.name).chain(&end.program);
        assert!(
            texts
                .chain(&end.congestion)
                .all(|text| text.chars().count() <= 100)
        );
        let _ = (end.cpu_permille(), end.cpu_ns_per_kib());
        request_text(message.to_string().as_bytes());
    }
}

/// Returns the messages up to the first error. What waits to be complete stays within the limit of a frame.
fn all_frames(bytes: &[u8], piece: usize) -> Vec<Value> {
    let (mut received, mut messages) = (Frames::default(), Vec::new());
    for piece in bytes.chunks(piece) {
        received.extend(piece);
        loop {
            match received.take() {
                Ok(Some(message)) => messages.push(message),
                Ok(None) => break,
                Err(error) => {
                    check_error(&error);
                    return messages;
                }
            }
        }
        assert!(received.len() < 4 + FRAME_MAX as usize);
    }
    messages
}

/// Returns whether it has no number with a fraction, whose last digit may change when it is read.
fn is_exact(message: &Value) -> bool {
    match message {
        Value::Number(number) => !number.is_f64(),
        Value::Array(list) => list.iter().all(is_exact),
        Value::Object(fields) => fields.values().all(is_exact),
        _ => true,
    }
}

/// Whatever the other end sent, the error is one line and not much longer than that.
fn check_error(error: &Error) {
    assert!(!error.to_string().is_empty());
}

#[cfg(test)]
#[path = "replay.rs"]
mod replay;

#[test]
fn corpus_is_parsed_without_panics() {
    replay::replay(env!("CARGO_MANIFEST_DIR"), "session_messages", session_messages);
}
