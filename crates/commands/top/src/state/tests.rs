//! Keys in, model and requests out.

use super::fixtures::{Services, row, sample};
use super::key::KeyDecoder;
use super::*;
use sockeye_model::Cookie;

fn plan() -> Plan {
    Plan {
        view: View::Sockets,
        group_by: GROUPS[0],
        filter: String::new(),
        order: Order {
            column: "number",
            descending: true,
        },
        interval: Duration::from_secs(2),
        watched: None,
        playback: None,
    }
}

fn state() -> State {
    let mut state = State::new(&plan());
    state.add(sample(
        1,
        &[
            row(1, "10.0.0.1:80", Some(5)),
            row(2, "10.0.0.2:80", Some(7)),
            row(3, "10.0.0.3:80", None),
        ],
    ));
    state
}

/// Presses what a terminal sends, and returns the last request.
fn press(state: &mut State, bytes: &[u8]) -> Request {
    let mut keys = Vec::new();
    let mut decoder = KeyDecoder::default();
    decoder.feed(bytes, |key| keys.push(key));
    decoder.flush(|key| keys.push(key));
    keys.into_iter()
        .map(|key| state.press(key, &Services))
        .last()
        .unwrap_or(Request::Nothing)
}

fn selected(state: &State) -> Option<u64> {
    state.selected().map(|row| row.id)
}

#[test]
fn cursor_follows_its_row() {
    let mut state = state();
    assert_eq!(selected(&state), Some(2));
    press(&mut state, b"\x1b[B");
    assert_eq!(selected(&state), Some(1));
    state.add(sample(2, &[row(1, "a", Some(50)), row(2, "b", Some(7))]));
    assert_eq!((selected(&state), state.place().1), (Some(1), 0));
    state.add(sample(3, &[row(2, "b", Some(7))]));
    assert_eq!(selected(&state), Some(2));
    state.add(sample(4, &[]));
    assert_eq!(selected(&state), None);
    for keys in [
        b"\x1b[B".as_slice(),
        b"\x1b[F",
        b"\x1b[6~",
        b"\r",
        b"k",
        b"c",
        b"e",
    ] {
        press(&mut state, keys);
    }
}

#[test]
fn digits_choose_views_and_the_plan_says_so() {
    let mut state = state();
    for (key, view) in [
        (b"1", View::Flows),
        (b"5", View::Listeners),
        (b"8", View::Devices),
        (b"9", View::Devices),
    ] {
        press(&mut state, key);
        assert_eq!(state.plan().view, view);
    }
    press(&mut state, b"\t");
    assert_eq!(state.plan().view, View::Flows);
    press(&mut state, b"o");
    assert_eq!(
        (state.plan().view, state.plan().group_by),
        (View::Groups, GROUPS[1])
    );
}

#[test]
fn paused_screen_stands_still_and_arrows_go_back() {
    let mut state = state();
    press(&mut state, b"p");
    state.add(sample(2, &[row(9, "z", Some(1))]));
    assert_eq!(state.shown().map(|sample| sample.number), Some(1));
    press(&mut state, b"p");
    assert_eq!(state.shown().map(|sample| sample.number), Some(2));
    press(&mut state, b"\x1b[D");
    assert_eq!(state.still_at, Some(1));
    press(&mut state, b"\x1b[D");
    assert_eq!(state.message.as_deref(), Some("nothing older is kept"));
    press(&mut state, b"\x1b[C\x1b[C");
    assert_eq!(state.still_at, None);
}

#[test]
fn filter_is_taken_only_without_an_error() {
    let mut state = state();
    press(&mut state, b"/dport = \r");
    assert!(matches!(state.mode, Mode::Filter(_)));
    assert_eq!(state.plan().filter, "");
    press(&mut state, b":htttp\r");
    assert_eq!(state.plan().filter, "", "there is no such service");
    press(&mut state, b"\x17:443\r");
    assert_eq!(
        (state.plan().filter.as_str(), &state.mode),
        ("dport = :443", &Mode::Table)
    );
    press(&mut state, b"\x1b");
    assert_eq!(state.plan().filter, "");
}

#[test]
fn rows_of_another_filter_are_not_shown_under_it() {
    let mut state = state();
    press(&mut state, b"/dst nosuch\r");
    assert_eq!((state.filter.as_str(), state.rows().len()), ("dst nosuch", 0));
    state.fail("sockeye: filter: expected an address\n  dst nosuch\n      ^^^^^^\n");
    assert_eq!(
        state.failure.as_deref(),
        Some("filter: expected an address\n  dst nosuch\n      ^^^^^^")
    );
    // The first row of the sample before, which is of no filter.
    press(&mut state, b"\x1b[D");
    assert_eq!((selected(&state), state.still_at), (Some(2), Some(1)));
    press(&mut state, b"\x1b[C");
    assert_eq!((selected(&state), state.still_at), (None, None));
}

#[test]
fn letters_in_a_filter_are_no_commands() {
    let mut state = state();
    assert_eq!(press(&mut state, b"/qkK123"), Request::Nothing);
    assert_eq!(state.view, View::Sockets);
    assert_eq!(press(&mut state, b"\x03"), Request::End);
}

#[test]
fn text_does_not_replace_what_is_typed_or_asked() {
    for keys in [b"/dport".as_slice(), b"k"] {
        let mut state = state();
        press(&mut state, keys);
        let mode = state.mode.clone();
        state.show_text("what ESTABLISHED means".to_owned());
        assert_eq!(state.mode, mode);
        assert!(state.message.is_some());
    }
    let mut state = state();
    state.show_text("what ESTABLISHED means".to_owned());
    assert!(matches!(state.mode, Mode::Text(..)));
}

#[test]
fn kill_asks_and_only_y_confirms() {
    let mut state = state();
    let socket = SocketId {
        netns: None,
        cookie: Cookie(2),
    };
    let command = Command::Kill(socket, "10.0.0.2:80".to_owned());
    assert_eq!(press(&mut state, b"k"), Request::Nothing);
    assert_eq!(state.mode, Mode::Confirm(command.clone()));
    assert_eq!(press(&mut state, b"\r"), Request::Nothing);
    assert_eq!(state.message.as_deref(), Some("nothing was changed"));
    assert_eq!(press(&mut state, b"ky"), Request::Run(command));
}

#[test]
fn enter_shows_a_connection_and_escape_leaves_it() {
    let mut state = state();
    press(&mut state, b"\r");
    let socket = state.plan().watched;
    assert_eq!(socket.map(|socket| socket.cookie), Some(Cookie(2)));
    press(&mut state, b"\x1b");
    assert_eq!(state.plan().watched, None);
}

#[test]
fn keys_in_details_act_on_the_connection_that_is_shown() {
    let mut state = state();
    press(&mut state, b"\r");
    let socket = state.plan().watched.unwrap();
    assert_eq!(socket.cookie, Cookie(2));
    // Another one leads now.
    state.add(sample(
        2,
        &[row(1, "10.0.0.1:80", Some(50)), row(2, "10.0.0.2:80", Some(7))],
    ));
    let capture = Command::Capture(socket, "port 2".to_owned());
    assert_eq!(press(&mut state, b"c"), Request::Run(capture));
    press(&mut state, b"k");
    let kill = Command::Kill(socket, "10.0.0.2:80".to_owned());
    assert_eq!(state.mode, Mode::Confirm(kill));
    press(&mut state, b"n");
    // It has ended.
    state.mode = Mode::Details(socket);
    state.add(sample(3, &[row(1, "10.0.0.1:80", Some(50))]));
    for key in [b"k", b"K", b"c"] {
        assert_eq!(press(&mut state, key), Request::Nothing);
        assert_eq!(state.mode, Mode::Details(socket));
        assert_eq!(
            state.message.as_deref(),
            Some("this connection is not listed any more")
        );
    }
}

#[test]
fn capture_ends_without_a_selected_connection() {
    let mut state = state();
    let socket = SocketId {
        netns: None,
        cookie: Cookie(2),
    };
    state.capture = Some(socket);
    state.add(sample(2, &[]));
    let end = Request::Run(Command::Capture(socket, String::new()));
    assert_eq!(press(&mut state, b"c"), end);
    assert_eq!(press(&mut state, b"1c"), end);
}

#[test]
fn what_the_screen_stands_still_at_stays_whole() {
    let mut state = state();
    let rows: Vec<_> = (1..=100)
        .map(|id| row(id, "10.0.0.1:80", Some(1000 - id)))
        .collect();
    state.add(sample(2, &rows));
    press(&mut state, b"\x1b[Fp");
    assert_eq!(selected(&state), Some(100));
    for number in 3..6 {
        state.add(sample(number, &rows[..2]));
        assert_eq!((selected(&state), state.rows().len()), (Some(100), 100));
    }
    press(&mut state, b"p");
    assert_eq!(state.rows().len(), 2);
}

#[test]
fn enter_on_a_group_lists_its_sockets() {
    let mut state = state();
    let mut group = row(1, "nginx", Some(5));
    group.socket = None;
    group.filter = Some("owner = nginx".into());
    let processes = Sample {
        view: Some(View::Processes),
        ..sample(2, &[group])
    };
    press(&mut state, b"3");
    state.add(processes.clone());
    press(&mut state, b"\r");
    assert_eq!(
        (state.view, state.filter.as_str()),
        (View::Sockets, "owner = nginx")
    );
    // What was filtered before still is.
    state.filter = "dport = :443".to_owned();
    press(&mut state, b"3\r");
    assert_eq!(state.filter, "dport = :443", "the rows are of another filter");
    state.add(Sample {
        filter: "dport = :443".into(),
        ..processes
    });
    press(&mut state, b"\r");
    assert_eq!(state.filter, "( dport = :443 ) and owner = nginx");
}

#[test]
fn enter_on_a_finding_shows_what_was_listed() {
    let mut state = state();
    let mut finding = row(1, "counters", Some(5));
    (finding.socket, finding.filter) = (None, None);
    finding.text = Some("NOTICE  counters  UdpNoPorts\n  410 since the last sample\n".into());
    finding.explained = Some("UdpNoPorts".into());
    let findings = |number, rows: &[Row]| Sample {
        view: Some(View::Findings),
        ..sample(number, rows)
    };
    press(&mut state, b"7");
    state.add(findings(2, &[finding.clone()]));
    let explain = Request::Run(Command::Explain("UdpNoPorts".to_owned()));
    assert_eq!(press(&mut state, b"e"), explain);
    assert_eq!(press(&mut state, b"\r"), Request::Nothing);
    let shown = Mode::Text(finding.text.as_deref().unwrap_or_default().to_owned(), 0);
    assert_eq!(state.mode, shown);
    // It stays while another one is listed.
    state.add(findings(3, &[row(2, "other", Some(5))]));
    assert_eq!(state.mode, shown);
}

#[test]
fn keepalive_is_not_asked_about_where_there_is_none() {
    let mut state = state();
    let mut udp = row(1, "10.0.0.1:53", Some(5));
    udp.no_keepalive = Some("UDP has no keepalive");
    state.add(sample(2, &[udp]));
    assert_eq!(press(&mut state, b"K"), Request::Nothing);
    assert_eq!(
        (&state.mode, state.message.as_deref()),
        (&Mode::Table, Some("UDP has no keepalive"))
    );
    press(&mut state, b"k");
    assert!(matches!(state.mode, Mode::Confirm(_)));
}

#[test]
fn help_lists_the_keys_of_what_is_shown() {
    let text = |playback| {
        let mut state = State::new(&Plan { playback, ..plan() });
        press(&mut state, b"?");
        match state.mode {
            Mode::Text(text, 0) => text,
            mode => panic!("{mode:?}"),
        }
    };
    let (live, replay) = (text(None), text(Some(Playback::new())));
    assert!(live.contains("close the selected") && !live.contains("replay") && !live.contains("speed"));
    assert!(replay.contains("speed") && !replay.contains("close the selected"));
}

#[test]
fn row_without_words_says_what_e_explains() {
    let mut state = state();
    assert_eq!(press(&mut state, b"e"), Request::Nothing);
    assert!(
        state
            .message
            .is_some_and(|message| message.starts_with("e explains"))
    );
}

#[test]
fn order_is_chosen_by_keys_and_by_the_mouse() {
    let mut state = state();
    press(&mut state, b"<");
    assert_eq!(
        state.order(),
        Order {
            column: "name",
            descending: false
        }
    );
    assert_eq!(selected(&state), Some(1));
    press(&mut state, b"r");
    assert_eq!(selected(&state), Some(3));
    press(&mut state, b">");
    assert!(state.order().descending);
    // The second row of the table.
    state.click(Target::Row(1));
    assert_eq!(selected(&state), Some(1));
}

#[test]
fn interval_is_bounded() {
    let mut state = state();
    press(&mut state, &[b'-'; 20]);
    assert_eq!(state.plan().interval, Duration::from_millis(250));
    press(&mut state, &[b'+'; 20]);
    assert_eq!(state.plan().interval, Duration::from_secs(64));
}

#[test]
fn tiny_screens_have_a_row() {
    let mut state = state();
    for (columns, rows) in [(0, 0), (1, 1), (40, 5), (200, 50)] {
        state.resize(columns, rows);
        press(&mut state, b"\x1b[F");
        let (first, index) = state.place();
        assert!(first <= index && index < first + state.page(), "{columns}x{rows}");
    }
}
