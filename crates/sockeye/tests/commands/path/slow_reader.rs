//! A program that reads a connection slowly: its receive queue is full, and packets are merged there.

use super::{Following, hop};
use rustix::io::ioctl_fionread;
use sockeye_lab::{Lab, need};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// The time that bytes wait is that between where they arrive and where the program has read so far.
#[test]
fn time_in_the_receive_queue_is_that_of_its_bytes() {
    let lab = need!(Lab::new("path_slow_reader"));
    let (client, server) = (lab.namespace("client"), lab.namespace("server"));
    let link = lab.link(&client, &server);
    let address = SocketAddr::new(link.server_addresses().0, 5460);
    let listener = server.run(|| TcpListener::bind(address).unwrap());
    let mut sending = client.run(|| TcpStream::connect(address).unwrap());
    let (mut reading, _) = listener.accept().unwrap();
    sending
        .set_write_timeout(Some(Duration::from_millis(100)))
        .unwrap();
    let begin = Instant::now();
    let seconds = Duration::from_secs;
    let (mut waiting, mut bytes, mut following) = (Vec::new(), 0, None);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            while begin.elapsed() < seconds(6) {
                let _ = sending.write(&[0; 1000]);
            }
        });
        // Until all queues are full; then it is followed.
        while begin.elapsed() < seconds(2) {
            let _ = reading.read(&mut [0; 4096]).unwrap();
            std::thread::sleep(Duration::from_millis(5));
        }
        following = Some(Following::start(&lab, "--format json --port 5460"));
        let begin = Instant::now();
        while begin.elapsed() < seconds(3) {
            waiting.push(ioctl_fionread(&reading).unwrap());
            bytes += reading.read(&mut [0; 4096]).unwrap() as u64;
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    let document = following.unwrap().document();
    waiting.sort_unstable();
    // As many bytes as wait are read in that time.
    let expected_ns = waiting[waiting.len() / 2] * 3_000_000_000 / bytes;
    let socket = hop(&document, "in", "socket");
    let median_ns = socket["median_ns"].as_u64().unwrap();
    assert!(
        (expected_ns / 2..expected_ns * 2).contains(&median_ns),
        "{median_ns} ns, expected {expected_ns} ns: {document:#}"
    );
    let every_ns = socket["read_every_ns"].as_u64().unwrap();
    assert!((5_000_000..20_000_000).contains(&every_ns), "{document:#}");
    let text = document["sentences"][0]["text"].as_str().unwrap();
    let expected = "of the time on this host is spent in the send buffer: the receive window of the peer is full, whose program (";
    assert!(text.contains(expected), "{text}");
    assert!(text.contains(" reads every "), "{text}");
}

/// Answers 50 messages, each 5 ms after it has looked at it. `take` reads it.
fn answer_late(mut reading: TcpStream, take: impl Fn(&mut TcpStream)) {
    for _ in 0..50 {
        assert_eq!(reading.peek(&mut [0; 64]).unwrap(), 64);
        std::thread::sleep(Duration::from_millis(5));
        take(&mut reading);
        reading.write_all(&[1]).unwrap();
    }
}

/// A look at a message (MSG_PEEK) is no reading; splice() is one, and copies nothing.
#[test]
fn message_is_in_the_receive_queue_until_it_is_taken() {
    let (lab, here) = need!(super::alone("path_peek"));
    type Take = fn(&mut TcpStream);
    let takes: [(&str, Take); 2] = [
        ("127.0.0.1:5467", |reading| {
            reading.read_exact(&mut [0; 64]).unwrap();
        }),
        ("127.0.0.1:5468", |reading| {
            let (_out, into) = rustix::pipe::pipe().unwrap();
            let flags = rustix::pipe::SpliceFlags::empty();
            let taken = rustix::pipe::splice(reading, None, into, None, 64, flags).unwrap();
            assert_eq!(taken, 64);
        }),
    ];
    for (address, take) in takes {
        let listener = here.run(|| TcpListener::bind(address).unwrap());
        let mut asking = here.run(|| TcpStream::connect(address).unwrap());
        let (reading, _) = listener.accept().unwrap();
        let port = listener.local_addr().unwrap().port();
        let following = Following::start(&lab, &format!("--format json --port {port} -N {}", here.name()));
        std::thread::scope(|scope| {
            scope.spawn(|| answer_late(reading, take));
            for _ in 0..50 {
                asking.write_all(&[0; 64]).unwrap();
                asking.read_exact(&mut [0]).unwrap();
            }
        });
        let document = following.document();
        let socket = hop(&document, "in", "socket");
        assert!(socket["packets"].as_u64().unwrap() >= 45, "{document:#}");
        let median_ns = socket["median_ns"].as_u64().unwrap();
        assert!((5_000_000..50_000_000).contains(&median_ns), "{document:#}");
    }
}

/// A program that reads at once what comes, but for one pause: that is said, and no pace that it does not have.
#[test]
fn single_pause_of_a_program_is_named() {
    let (lab, here) = need!(super::alone("path_pause"));
    let address = "127.0.0.1:5484";
    let listener = here.run(|| TcpListener::bind(address).unwrap());
    let [mut sending, mut reading] = super::round_trips::connect_to(&here, &listener);
    let following = Following::start(&lab, &format!("--format json --port 5484 -N {}", here.name()));
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for _ in 0..400 {
                sending.write_all(&[7; 1000]).unwrap();
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        let (mut bytes, mut has_paused) = (0, false);
        while bytes < 400_000 {
            bytes += reading.read(&mut [0; 65_536]).unwrap();
            if bytes > 100_000 && !has_paused {
                has_paused = true;
                std::thread::sleep(Duration::from_millis(500));
            }
        }
    });
    let document = following.document();
    let sentences = document["sentences"].as_array().unwrap().iter();
    let mut texts = sentences.map(|sentence| sentence["text"].as_str().unwrap());
    let found = texts.any(|text| {
        text.contains(" in the receive queue of the socket, whose program (")
            && text.contains(") read nothing for up to ")
    });
    assert!(found, "{document:#}");
    assert!(
        hop(&document, "in", "socket").get("read_every_ns").is_none(),
        "{document:#}"
    );
}

/// The window is full since the buffer is small: the program reads at once.
#[test]
fn small_receive_buffer_is_named_and_not_its_program() {
    let (lab, here) = need!(super::alone("path_small_buffer"));
    let address = "127.0.0.1:5485";
    let listener = here.run(|| TcpListener::bind(address).unwrap());
    rustix::net::sockopt::set_socket_recv_buffer_size(&listener, 2048).unwrap();
    let [mut sending, mut reading] = super::round_trips::connect_to(&here, &listener);
    let following = Following::start(&lab, &format!("--format json --port 5485 -N {}", here.name()));
    std::thread::scope(|scope| {
        scope.spawn(move || sending.write_all(&[7; 300_000]).unwrap());
        let mut bytes = 0;
        while bytes < 300_000 {
            bytes += reading.read(&mut [0; 65_536]).unwrap();
        }
    });
    let document = following.document();
    let text = document["sentences"][0]["text"].as_str().unwrap();
    // On a busy machine the program can wait for a processor as long as a round trip takes; it has no pace even then.
    assert!(
        text.contains(": the receive window of the peer is full"),
        "{text}"
    );
    assert!(!text.contains(" reads every "), "{text}");
}
