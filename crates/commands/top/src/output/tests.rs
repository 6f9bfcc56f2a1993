//! Drawn frames, compared with text.

use super::*;
use crate::state::Mode;
use crate::state::Plan;
use crate::state::fixtures::{Services, row, sample};
use crate::state::key::Key;
use crate::state::sample::Details;
use crate::state::table::Order;
use crate::state::view::GROUPS;
use std::time::Duration;

const PLAIN: Abilities = Abilities {
    has_color: false,
    is_utf8: false,
};

fn state(columns: u16, rows: u16) -> State {
    let mut state = State::new(&Plan {
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
    });
    state.resize(columns, rows);
    for number in 1..=3 {
        let rtt = Some(100 * number);
        state.add(sample(
            number,
            &[row(1, "10.0.0.1:443", rtt), row(2, "10.0.0.2:443", None)],
        ));
    }
    state
}

fn text(state: &State) -> String {
    let buffer = draw(state, PLAIN);
    let line = |y| {
        let cells = (0..buffer.area.width).map(|x| buffer[(x, y)].symbol());
        cells.collect::<String>().trim_end().to_owned() + "\n"
    };
    (0..buffer.area.height).map(line).collect()
}

#[track_caller]
fn check(state: &State, expected: &str) {
    let text = text(state);
    assert!(text == expected, "expected:\n{expected}\ngot:\n{text}");
}

#[test]
fn table_has_title_views_rows_and_keys() {
    check(
        &state(80, 9),
        "\
12:00:06  2 sockets  every 2 s
1 flows 2 sockets 3 processes 4 groups 5 listeners 6 drops 7 findings 8 devices
Name          Number  RTT trend
10.0.0.1:443     300  .=#
10.0.0.2:443       -



q: end  ?: help  /: filter  <>: sort  Enter: more  p: pause
",
    );
}

#[test]
fn narrow_screen_leaves_out_columns_and_rows_and_says_so() {
    check(
        &state(15, 6),
        "\
12:00:06  2 so~
1 fl 2 so 3 pr
Name
10.0.0.1:443

q: end  ?: hel~
"
        .replace("\n\nq", "\n1 more row; 1 ~\nq")
        .as_str(),
    );
}

#[test]
fn filter_shows_its_error_under_the_place() {
    let mut state = state(80, 8);
    for key in "/dport = )".chars() {
        state.press(Key::Char(key), &Services);
    }
    let text = text(&state);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[7], "/dport = )");
    assert_eq!(lines[6], "         ^ expected a port after '=', found ')'");
}

#[test]
fn paused_screen_says_how_far_back_it_is() {
    let mut state = state(80, 8);
    state.press(Key::Left, &Services);
    assert!(
        text(&state).starts_with("12:00:04  PAUSED -0:02  2 sockets"),
        "{}",
        text(&state)
    );
}

#[test]
fn failure_is_behind_the_clock() {
    let mut state = state(40, 8);
    state.failure = Some("cannot enter a namespace".to_owned());
    let text = text(&state);
    assert!(text.starts_with("12:00:06  cannot enter a namespace"), "{text}");
}

#[test]
fn filter_that_fails_later_has_its_reason_in_the_place_of_rows() {
    let mut state = state(60, 9);
    state.filter = "dst nosuch".to_owned();
    state.fail("sockeye: filter: expected an address, found 'nosuch'\n  dst nosuch\n      ^^^^^^\n");
    check(
        &state,
        "\
sockeye top  /dst nosuch
1 fl 2 so 3 pr 4 gr 5 li 6 dr 7 fi 8 de

filter: expected an address, found 'nosuch'
  dst nosuch
      ^^^^^^


q: end  ?: help  /: filter  <>: sort  Enter: more  p: pause
",
    );
}

#[test]
fn connection_that_was_not_watched_has_no_details_of_that_time() {
    let mut state = state(80, 8);
    for key in [Key::Char('p'), Key::Enter] {
        state.press(key, &Services);
    }
    assert!(
        text(&state).contains("Not read at that time: p goes on."),
        "{}",
        text(&state)
    );
}

/// The details of a connection, on a screen of this size.
fn details(columns: u16, rows: u16) -> State {
    let mut state = state(columns, rows);
    state.press(Key::Enter, &Services);
    let Mode::Details(socket) = state.mode else {
        panic!("{:?}", state.mode);
    };
    let mut last = sample(4, &[row(1, "10.0.0.1:443", Some(400))]);
    last.details = Some(Box::new(Details {
        socket,
        facts: vec![
            (
                "connection",
                "tcp  ESTAB  10.25.0.1:51735  [2001:db8:1234:5678:9abc:def0:1234:5678]:43124".into(),
            ),
            ("owner", "python3(28746,fd=13)  root".into()),
        ],
        limit: "the peer's receive window, 90 % of the time with data to send: the peer reads too slowly, or its buffer is too small"
            .into(),
        numbers: vec![
            ("rtt_us", Some(10_200)),
            ("snd_cwnd_segs", Some(18)),
            ("lost_segs", None),
            ("unacked_segs", Some(1)),
            ("notsent_bytes", Some(1 << 20)),
        ],
    }));
    state.add(last);
    state
}

#[test]
fn details_are_folded_and_numbers_scroll() {
    let mut narrow = details(40, 15);
    let facts = "\
12:00:08  1 socket  every 2 s
1 fl 2 so 3 pr 4 gr 5 li 6 dr 7 fi 8 de
connection    tcp  ESTAB
              10.25.0.1:51735
              [2001:db8:1234:5678:9abc:~
              def0:1234:5678]:43124
owner         python3(28746,fd=13)  root
held back by  the peer's receive window,
              90 % of the time with data
              to send: the peer reads
              too slowly, or its buffer
              is too small

4 more lines: Down
Esc: back  k: close  K: keepalive  c: c~
";
    check(&narrow, facts);
    narrow.press(Key::PageDown, &Services);
    check(
        &narrow,
        "\
12:00:08  1 socket  every 2 s
1 fl 2 so 3 pr 4 gr 5 li 6 dr 7 fi 8 de
owner         python3(28746,fd=13)  root
held back by  the peer's receive window,
              90 % of the time with data
              to send: the peer reads
              too slowly, or its buffer
              is too small

rtt                     10.2ms _
snd_cwnd                    18 _
unacked                      1 _
notsent                  1.0MB _
4 lines above: Up
Esc: back  k: close  K: keepalive  c: c~
",
    );
    // Not beyond the last line: one key is enough to go back.
    for key in [Key::Down, Key::End, Key::Home] {
        narrow.press(key, &Services);
    }
    check(&narrow, facts);
    narrow.press(Key::End, &Services);
    narrow.press(Key::Up, &Services);
    assert!(
        text(&narrow).contains("3 lines above: Up; 1 below: Down"),
        "{}",
        text(&narrow)
    );
}

#[test]
fn details_fit_into_eighty_and_more_columns() {
    check(
        &details(80, 14),
        "\
12:00:08  1 socket  every 2 s
1 flows 2 sockets 3 processes 4 groups 5 listeners 6 drops 7 findings 8 devices
connection    tcp  ESTAB  10.25.0.1:51735
              [2001:db8:1234:5678:9abc:def0:1234:5678]:43124
owner         python3(28746,fd=13)  root
held back by  the peer's receive window, 90 % of the time with data to send: the
              peer reads too slowly, or its buffer is too small

rtt                     10.2ms _        snd_cwnd                    18 _
unacked                      1 _        notsent                  1.0MB _



Esc: back  k: close  K: keepalive  c: capture  p: pause  ?: help
",
    );
    let wide = text(&details(120, 14));
    assert!(
        wide.contains(
            "connection    tcp  ESTAB  10.25.0.1:51735  [2001:db8:1234:5678:9abc:def0:1234:5678]:43124\n"
        ),
        "{wide}"
    );
    assert!(
        wide.contains("or its buffer is\n              too small"),
        "{wide}"
    );
    assert!(!wide.contains('~'), "{wide}");
}

#[test]
fn question_and_help_are_drawn() {
    let mut state = state(80, 8);
    state.press(Key::Char('k'), &Services);
    assert!(
        text(&state).ends_with("Close 10.0.0.1:443? y/n\n"),
        "{}",
        text(&state)
    );
    state.press(Key::Char('n'), &Services);
    state.press(Key::Char('?'), &Services);
    assert!(text(&state).starts_with("Keys\n"));
}

#[test]
fn no_size_panics() {
    for columns in [0, 1, 2, 9, 39, 46, 80, 200] {
        for rows in [0, 1, 2, 3, 4, 5, 24] {
            let mut state = state(columns, rows);
            draw(&state, PLAIN);
            for keys in ["/", "sport = ", "\u{1b}", "?", "q", "k", "n", "\n"] {
                for character in keys.chars() {
                    let key = match character {
                        '\u{1b}' => Key::Escape,
                        '\n' => Key::Enter,
                        other => Key::Char(other),
                    };
                    state.press(key, &Services);
                    draw(&state, PLAIN);
                }
            }
            for x in 0..columns {
                tab_at(x, columns);
                for y in 0..rows {
                    target_at(&state, x, y);
                }
            }
        }
    }
}

#[test]
fn tabs_are_where_they_are_drawn() {
    assert_eq!(tab_at(0, 200), Some(View::Flows));
    assert_eq!(tab_at(9, 200), Some(View::Sockets));
    assert_eq!(tab_at(7, 200), None);
    assert_eq!(tab_at(199, 200), None);
}
