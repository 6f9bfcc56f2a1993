#!/usr/bin/env python3
"""Writes captures of known causes into a folder, and what `sockeye analyze` has to say about each.

    make.py FOLDER     writes FOLDER/NAME.pcap for each, and FOLDER/labels.json

A label has `cause` (what was done to the connection), `finds` (findings, or `one|other`, of which each must be among those of a
connection), `lacks` (findings that would be wrong), `says` and `never` (regular expressions for the text). They were
written from the cause, before any output was seen.
"""

import json
import sys

from simulation import *

CAPTURES = []
LOSS = ["queue_overflow", "path_loss", "loss_before_capture", "retransmission_timeouts"]
FAULTS = LOSS + ["server_slow", "receiver_window", "slow_reader", "reordering", "spurious_retransmissions", "jitter"]


def capture(cause, finds=(), lacks=(), says=(), never=(), snaplen=200):
    def add(function):
        CAPTURES.append((function.__name__, function, cause, finds, lacks, says, never, snaplen))
        return function

    return add


def path(ms, tap="client", there=(), back=(), far_there=(), far_back=()):
    """Both directions of a path with this one-way delay; `there` and `back` are behind the tap."""
    half = [Delay(int(ms * MS / 2))]
    whole = [Delay(int(ms * MS))]
    if tap == "client":
        return dict(there=[TAP, *there, *whole], back=[*back, *whole, TAP])
    if tap == "server":
        return dict(there=[*there, *whole, TAP], back=[TAP, *back, *whole])
    return dict(there=[*there, *half, TAP, *far_there, *half], back=[*far_back, *half, TAP, *back, *half])


def requests(count, size=300, answer=2_000, think=0, first=0, last=0):
    if first:
        yield ("wait", first)
    for turn in range(count):
        if turn and think:
            yield ("wait", think)
        yield ("send", size)
        yield ("receive", answer)
    if last:
        yield ("wait", last)
    yield ("close",)


def answers(count, size=300, answer=2_000, work=MS, works=None):
    for turn in range(count):
        yield ("receive", size)
        yield ("wait", works[turn] if works else work)
        yield ("send", answer)
    yield ("end",)
    yield ("close",)


def upload(size, close=True):
    yield ("send", size)
    if close:
        yield ("close",)


def sink():
    yield ("end",)
    yield ("close",)


def silent():
    yield ("wait", 10_000 * SECOND)


# Whose turn it was


@capture("the server sleeps 1 s before each of 5 answers", ["server_slow"], ["client_idle", "healthy"], ["server"], ["client's program"])
def server_sleeps(world):
    Pair(world, requests(5), answers(5, work=SECOND), **path(5))


@capture("the server sleeps 1 s, captured at the server", ["server_slow"], ["client_idle", "healthy"])
def server_sleeps_captured_there(world):
    Pair(world, requests(5), answers(5, work=SECOND), **path(5, "server"))


@capture("the first answer takes 3 s, the 9 others 2 ms", ["server_slow"], ["client_idle"])
def first_answer_slow(world):
    Pair(world, requests(10), answers(10, works=[3 * SECOND] + [2 * MS] * 9), **path(5))


@capture("one of 50 answers takes 4 s", ["server_slow"], ["client_idle"])
def one_answer_slow(world):
    Pair(world, requests(50), answers(50, works=[3 * MS] * 30 + [4 * SECOND] + [3 * MS] * 19), **path(5))


@capture("the client thinks for 1 s between 5 requests", ["healthy_idle", "client_idle"], FAULTS, ["client"], ["server's program"])
def client_thinks(world):
    Pair(world, requests(5, think=SECOND), answers(5), **path(5))


@capture("the client thinks for 1 s, captured at the server", ["healthy_idle", "client_idle"], FAULTS)
def client_thinks_captured_there(world):
    Pair(world, requests(5, think=SECOND), answers(5), **path(5, "server"))


@capture("12 s between the handshake and the first request", ["healthy_idle", "client_idle"], FAULTS, ["before (its|the) first"], ["server's program"])
def idle_before_first_request(world):
    Pair(world, requests(1, first=12 * SECOND), answers(1), **path(5))


@capture("kept open for 60 s after the only answer", ["healthy_idle"], FAULTS, ["after the last"], ["slow"])
def idle_after_the_last_answer(world):
    Pair(world, requests(1, last=60 * SECOND), answers(1), **path(5))


@capture("30 s of keep-alive between two requests", ["healthy_idle", "client_idle"], FAULTS)
def keepalive_between_requests(world):
    Pair(world, requests(2, think=30 * SECOND), answers(2), **path(5))


@capture("idle for 100 s, TCP keepalives every 20 s are answered", ["healthy_idle"], FAULTS)
def answered_keepalives(world):
    Pair(world, requests(1, last=100 * SECOND), answers(1), client=dict(keepalive=(20 * SECOND, 20 * SECOND, 9)), **path(5))


@capture("300 answers of 30 ms each: most of the time is the server's", [], ["client_idle", *LOSS], ["server"])
def many_moderate_answers(world):
    Pair(world, requests(300), answers(300, work=30 * MS), **path(1))


@capture("the client sends a request of 200 KB, the server computes for 4 s", ["server_slow"], ["client_idle"])
def upload_then_slow_answer(world):
    Pair(world, requests(1, size=200_000), answers(1, size=200_000, work=4 * SECOND), **path(5))


def broken_answer():
    yield ("receive", 300)
    yield ("send", 1_000)
    yield ("wait", 3 * SECOND)
    yield ("send", 50_000)
    yield ("end",)
    yield ("close",)


@capture("the server pauses for 3 s in the middle of its answer", ["server_slow"], ["client_idle", "healthy", *LOSS])
def pause_within_the_answer(world):
    Pair(world, requests(1, answer=51_000), broken_answer(), **path(5))


@capture("a server that speaks first waits 10 s with its greeting", ["server_slow"], ["client_idle"])
def slow_greeting(world):
    def server():
        yield ("wait", 10 * SECOND)
        yield ("send", 80)
        yield ("receive", 20)
        yield ("send", 80)
        yield ("end",)
        yield ("close",)

    def client():
        yield ("receive", 80)
        yield ("send", 20)
        yield ("receive", 80)
        yield ("close",)

    Pair(world, client(), server(), addresses=(("10.1.0.2", 40_100), ("10.2.0.3", 25)), **path(5))


def paced(count, size, pause):
    for _ in range(count):
        yield ("send", size)
        yield ("wait", pause)
    yield ("close",)


@capture("the client's program writes 10 KB every 100 ms", ["sender_paced"], ["server_slow", *LOSS], ["client"], ["server's program"])
def paced_upload(world):
    Pair(world, paced(40, 10_000, 100 * MS), sink(), **path(5))


@capture("the server's program writes 10 KB every 100 ms", ["sender_paced"], ["client_idle", *LOSS], ["server"], ["client's program"])
def paced_download(world):
    def server():
        yield ("receive", 300)
        yield from paced(40, 10_000, 100 * MS)

    def client():
        yield ("send", 300)
        yield ("end",)
        yield ("close",)

    Pair(world, client(), server(), **path(5))


@capture("messages of the server every 2 s, as on a websocket", ["healthy_idle"], ["server_slow", *LOSS], [], ["slow"])
def pushed_messages(world):
    def server():
        yield ("receive", 300)
        yield ("send", 200)
        for _ in range(20):
            yield ("wait", 2 * SECOND)
            yield ("send", 150)
        yield ("close",)

    def client():
        yield ("send", 300)
        yield ("end",)
        yield ("close",)

    Pair(world, client(), server(), **path(10))


@capture("long polling: each of 4 answers comes after 25 s", [], ["client_idle", *LOSS], ["long poll|waits on purpose"])
def long_poll(world):
    Pair(world, requests(4), answers(4, work=25 * SECOND), **path(10))


@capture("a person types in a shell: echo of each key", ["healthy_idle"], FAULTS)
def typing(world):
    Pair(world, requests(60, size=36, answer=36, think=280 * MS), answers(60, size=36, answer=36, work=MS), addresses=(("10.1.0.2", 40_200), ("10.2.0.3", 22)), **path(15))


@capture("TLS: the ServerHello takes 2 s, then all is fast", ["server_slow"], ["client_idle"], ["TLS"])
def slow_tls_handshake(world):
    def client():
        yield ("send", 300, b"\x16\x03\x01\x01\x27\x01")
        yield ("receive", 3_000)
        yield ("send", 80, b"\x14\x03\x03")
        for _ in range(5):
            yield ("send", 200, b"\x17\x03\x03")
            yield ("receive", 4_000)
        yield ("close",)

    def server():
        yield ("receive", 300)
        yield ("wait", 2 * SECOND)
        yield ("send", 3_000, b"\x16\x03\x03\x00\x7a\x02")
        yield ("receive", 80)
        for _ in range(5):
            yield ("receive", 200)
            yield ("wait", 2 * MS)
            yield ("send", 4_000, b"\x17\x03\x03")
        yield ("end",)
        yield ("close",)

    Pair(world, client(), server(), **path(10))


# Healthy


@capture("one request, answered at once", ["healthy"], FAULTS)
def healthy_short(world):
    Pair(world, requests(1), answers(1), **path(10))


@capture("400 requests, answered at once", ["healthy"], FAULTS)
def healthy_many(world):
    Pair(world, requests(400), answers(400, work=300_000), **path(2))


@capture("an upload as fast as 100 Mbit/s allow, no loss", ["healthy"], FAULTS)
def healthy_bulk(world):
    Pair(world, upload(3_000_000), sink(), client=dict(cwnd_max=300_000), **path(10, there=[Shaper(12_500_000)]))


@capture("an upload in a LAN with 50 us of round trip", ["healthy"], FAULTS)
def healthy_bulk_lan(world):
    Pair(world, upload(3_000_000), sink(), client=dict(cwnd_max=200_000), **path(0.025, there=[Shaper(125_000_000)]))


@capture("a download over a satellite, 600 ms of round trip, no loss", ["healthy"], FAULTS, [], ["[Ss]tall"])
def healthy_satellite(world):
    Pair(world, requests(1, answer=400_000), answers(1, answer=400_000), **path(300))


@capture("requests over IPv6", ["healthy"], FAULTS)
def healthy_ipv6(world):
    Pair(world, requests(5), answers(5), addresses=(("2001:db8:1::2", 40_001), ("2001:db8:2::3", 443)), **path(10))


@capture("pipelined requests: ten at once, answered in order", ["healthy"], FAULTS)
def healthy_pipelined(world):
    def client():
        for _ in range(10):
            yield ("send", 200)
        yield ("receive", 20_000)
        yield ("close",)

    def server():
        for _ in range(10):
            yield ("receive", 200)
            yield ("wait", MS)
            yield ("send", 2_000)
        yield ("end",)
        yield ("close",)

    Pair(world, client(), server(), **path(10))


@capture("613 bytes of answer 1.1 s after the request; no rate of Mbit/s", ["server_slow"], ["client_idle"], [], [r"[0-9] ?[MG]bit/s"])
def no_rate_of_few_bytes(world):
    Pair(world, requests(1, answer=613), answers(1, answer=613, work=1_100 * MS), **path(5))


@capture("a half-closed client waits for its answer, which takes 20 ms", ["healthy"], FAULTS)
def half_closed(world):
    def client():
        yield ("send", 500)
        yield ("close",)
        yield ("end",)

    def server():
        yield ("end",)
        yield ("wait", 20 * MS)
        yield ("send", 30_000)
        yield ("close",)

    Pair(world, client(), server(), **path(5))


@capture("both ends close at the same time", ["healthy"], FAULTS)
def simultaneous_close(world):
    def client():
        yield ("send", 300)
        yield ("receive", 1_000)
        yield ("wait", 5 * MS)
        yield ("close",)

    def server():
        yield ("receive", 300)
        yield ("send", 1_000)
        yield ("wait", 15 * MS)
        yield ("close",)

    Pair(world, client(), server(), **path(5))


@capture("two connections with the same ports, one after the other", ["healthy"], FAULTS)
def reused_ports(world):
    Pair(world, requests(2), answers(2), **path(5))
    other = Pair(world, requests(3), answers(3), start=3 * SECOND, **path(5))
    other.client.iss += 50_000_000


@capture("the capture begins in the middle of a healthy connection", ["healthy"], FAULTS)
def no_handshake(world):
    Pair(world, requests(20), answers(20), **path(5))
    world.run()
    world.packets = world.packets[30:]


@capture("a download, snapshot length 54: TCP options are cut", ["healthy"], FAULTS, snaplen=54)
def cut_packets(world):
    Pair(world, requests(1, answer=500_000), answers(1, answer=500_000), server=dict(cwnd_max=100_000), **path(5))


@capture("all timestamps are equal", [], FAULTS, [], ["inf|NaN|[0-9]{6,}"])
def equal_timestamps(world):
    Pair(world, requests(5), answers(5), **path(5))
    world.run()
    world.packets = [(0, packet) for _, packet in world.packets]


@capture("timestamps jump back by 2 s once", [], FAULTS, ["timestamps|time stamps"], ["[0-9]{6,}"])
def backward_timestamps(world):
    Pair(world, requests(40), answers(40), **path(5))
    world.run()
    half = len(world.packets) // 2
    world.packets = [(t + 5 * SECOND, p) for t, p in world.packets[:half]] + [(t + 3 * SECOND, p) for t, p in world.packets[half:]]


def only(world, client):
    world.run()
    world.packets = [(t, p) for t, p in world.packets if (p.src[0] == "10.1.0.2") == client]


@capture("only what the client sends was captured", ["one_direction"], FAULTS)
def only_client_captured(world):
    Pair(world, requests(10, think=100 * MS), answers(10), **path(5))
    only(world, True)


@capture("only what the server sends was captured", ["one_direction"], FAULTS)
def only_server_captured(world):
    Pair(world, requests(3, answer=100_000), answers(3, answer=100_000), **path(5))
    only(world, False)


# Windows and buffers


@capture("a receive buffer of 32 KB, 40 ms of round trip", ["receiver_window"], ["server_slow", *LOSS], ["window"])
def small_receive_window(world):
    Pair(world, upload(1_500_000), sink(), server=dict(receive_buffer=32_768), **path(20))


@capture("a receive buffer of 32 KB, captured at the receiver", ["receiver_window"], ["server_slow", *LOSS], ["window"])
def small_receive_window_captured_there(world):
    Pair(world, upload(1_500_000), sink(), server=dict(receive_buffer=32_768), **path(20, "server"))


@capture("the server reads 20 KB every 200 ms into a buffer of 64 KB", ["slow_reader"], ["server_slow", *LOSS], ["server"])
def slow_server_reads(world):
    Pair(world, upload(1_000_000), sink(), server=dict(receive_buffer=65_536, reader=(20_000, 200 * MS, 0)), **path(2))


@capture("the client reads its download slowly", ["slow_reader"], ["server_slow", *LOSS], ["client"])
def slow_client_reads(world):
    Pair(world, requests(1, answer=800_000), answers(1, answer=800_000), client=dict(receive_buffer=65_536, reader=(20_000, 150 * MS, 0)), **path(2))


@capture("the server does not read for 12 s: the window stays closed, probes are answered", ["slow_reader"], ["server_slow", *LOSS])
def closed_window(world):
    Pair(world, upload(200_000), sink(), server=dict(receive_buffer=65_536, reader=(1 << 20, 10 * MS, 12 * SECOND)), **path(5))


@capture("a reader that takes 100 bytes at a time and advertises each: silly windows", ["silly_window"], LOSS)
def silly_window(world):
    Pair(world, upload(120_000), sink(), server=dict(receive_buffer=16_384, silly=True, scale=0, reader=(100, 2 * MS, 0)), client=dict(scale=0), **path(1))


@capture("a send buffer of 20 KB, 40 ms of round trip", ["send_buffer"], ["server_slow", *LOSS], ["send buffer"])
def small_send_buffer(world):
    Pair(world, upload(1_500_000), sink(), client=dict(send_buffer=20_000), **path(20))


@capture("Nagle: write, write, read, with delayed ACKs", ["nagle_delayed_ack"], LOSS, ["Nagle|delayed"])
def nagle_and_delayed_ack(world):
    def client():
        for _ in range(20):
            yield ("send", 100)
            yield ("send", 200)
            yield ("receive", 300)
        yield ("close",)

    def server():
        for _ in range(20):
            yield ("receive", 300)
            yield ("send", 300)
        yield ("end",)
        yield ("close",)

    Pair(world, client(), server(), client=dict(nagle=True), server=dict(quick_acks=0), **path(1))


# Losses


def every(nth, first=20):
    return lambda n, packet: 0 if n >= first and n % nth == 0 else 1


def random_loss(seed, permille):
    numbers = Random(seed)
    return lambda n, packet: 0 if numbers.below(1000) < permille else 1


@capture("2 % random loss behind the capture", ["path_loss"], ["queue_overflow", "loss_before_capture", "server_slow", "healthy"], [], ["before (they|it) (came|reached)"])
def random_loss_after_capture(world):
    Pair(world, upload(1_500_000), sink(), **path(10, there=[Filter(random_loss(3, 20))]))


@capture("3 losses behind the capture, at the sender", ["path_loss"], ["queue_overflow", "loss_before_capture", "healthy"], ["3 (segments|losses)"], ["before (they|it) (came|reached)"])
def few_losses_after_capture(world):
    Pair(world, upload(900_000), sink(), **path(10, there=[Filter(lambda n, p: 0 if n in (100, 250, 400) else 1)]))


@capture("2 % random loss before the capture, at the receiver", ["loss_before_capture"], ["server_slow", "healthy"], ["before"])
def random_loss_before_capture(world):
    Pair(world, upload(1_500_000), sink(), **path(10, "server", there=[Filter(random_loss(4, 20))]))


@capture("losses between sender and capture, in the middle", ["loss_before_capture"], ["server_slow", "healthy"])
def loss_before_middle(world):
    Pair(world, upload(900_000), sink(), **path(10, "middle", there=[Filter(every(90))]))


@capture("losses between capture and receiver, in the middle", ["path_loss"], ["loss_before_capture", "server_slow", "healthy"], [], ["before (they|it) (came|reached)"])
def loss_behind_middle(world):
    Pair(world, upload(900_000), sink(), **path(10, "middle", far_there=[Filter(every(90))]))


@capture("a queue of 15 KB in front of 4 Mbit/s overflows", ["queue_overflow"], ["server_slow", "healthy", "loss_before_capture"], ["queue"])
def short_queue(world):
    Pair(world, upload(2_000_000), sink(), **path(10, there=[Shaper(500_000, 15_000)]))


@capture("a policer at 4 Mbit/s, burst 20 KB", ["path_loss"], ["server_slow", "healthy", "loss_before_capture"])
def policer(world):
    Pair(world, upload(1_500_000), sink(), **path(10, there=[Policer(500_000, 20_000)]))


@capture("the shaper is near the receiver, captured behind it", ["loss_before_capture"], ["server_slow", "healthy"])
def shaper_near_receiver(world):
    Pair(world, upload(1_500_000), sink(), **path(10, "server", there=[Delay(10 * MS), Shaper(500_000, 20_000)]))


@capture("the last segment of a request is lost: timeout", ["retransmission_timeouts"], ["server_slow", "healthy", "queue_overflow"], ["timeout"])
def tail_loss(world):
    lose = Filter(lambda n, p: 0 if n in (5, 10) else 1)
    Pair(world, requests(8, size=300), answers(8), **path(5, there=[lose]))


@capture("a whole flight is lost: timeout", ["retransmission_timeouts"], ["server_slow", "healthy"], ["timeout"])
def timeout_of_a_flight(world):
    lose = Filter(lambda n, p: 0 if 60 <= n < 95 else 1)
    Pair(world, upload(400_000), sink(), client=dict(cwnd_max=50_000), **path(10, there=[lose]))


@capture("one segment is lost, sent again after duplicate ACKs", ["path_loss"], ["retransmission_timeouts", "server_slow"], ["1 (segment|loss)"], ["timeout"])
def fast_retransmission(world):
    Pair(world, upload(400_000), sink(), **path(10, there=[Filter(lambda n, p: 0 if n == 120 else 1)]))


@capture("losses in a LAN, sent again 50 us after the duplicate ACKs", ["path_loss"], ["retransmission_timeouts", "server_slow"], [], ["timeout"])
def fast_retransmission_lan(world):
    Pair(world, upload(1_500_000), sink(), client=dict(cwnd_max=150_000), **path(0.025, there=[Shaper(125_000_000), Filter(every(200))]))


@capture("the first of many losses follows 300 ms of silence of the program, and is found by duplicate ACKs", ["path_loss"], ["retransmission_timeouts"], [], ["timeout"])
def fast_retransmission_after_pause(world):
    def client():
        for _ in range(6):
            yield ("send", 60_000)
            yield ("wait", 300 * MS)
        yield ("close",)

    Pair(world, client(), sink(), **path(5, there=[Filter(lambda n, p: 0 if n in (45, 90, 130) else 1)]))


@capture("a delay of 600 ms once: the timeout was needless", ["spurious_retransmissions"], ["path_loss", "queue_overflow", "loss_before_capture"], ["without need|needless"])
def needless_timeout(world):
    held = Jitter(lambda n, p: 600 * MS if n == 200 else 0)
    Pair(world, upload(600_000), sink(), client=dict(cwnd_max=60_000), **path(10, there=[held]))


@capture("each 40th segment is overtaken by 6 others", ["reordering"], ["path_loss", "queue_overflow", "loss_before_capture", "duplicates"], ["reorder"])
def reordering(world):
    late = Jitter(lambda n, p: 3 * MS if p.len and n % 40 == 0 else 0, in_order=False)
    Pair(world, upload(1_200_000), sink(), client=dict(cwnd_max=80_000), **path(10, there=[Shaper(6_000_000), late]))


@capture("reordering, captured behind it", ["reordering"], ["path_loss", "queue_overflow", "loss_before_capture", "duplicates"], ["reorder"])
def reordering_before_capture(world):
    late = Jitter(lambda n, p: 3 * MS if p.len and n % 40 == 0 else 0, in_order=False)
    Pair(world, upload(1_200_000), sink(), client=dict(cwnd_max=80_000), **path(10, "server", there=[Shaper(6_000_000), late]))


@capture("the network duplicates each 30th segment", ["duplicates"], ["path_loss", "queue_overflow", "loss_before_capture", "reordering"], ["twice|duplicate"])
def duplication(world):
    twice = Filter(lambda n, p: 2 if n % 30 == 0 else 1)
    Pair(world, upload(900_000), sink(), **path(10, there=[twice]))


@capture("the capture has each packet twice", ["healthy"], FAULTS + ["duplicates"], ["captured twice"])
def captured_twice(world):
    Pair(world, requests(10), answers(10), **path(5))
    world.run()
    world.packets = sorted(((t + d, p) for t, p in world.packets for d in (0, 3_000)), key=lambda item: item[0])


@capture("hosts that share one IP identification counter among connections, captured at the client", ["healthy_idle"], FAULTS, [], ["[Ll]ost|loss"])
def shared_identifications(world):
    ids = [5_000]
    for number in range(6):
        Pair(
            world,
            requests(12, think=(170 + 31 * number) * MS),
            answers(12, work=2 * MS),
            server=dict(ids=ids),
            client=dict(ids=[900 * number + 7]),
            addresses=(("10.1.0.2", 41_000 + number), ("10.2.0.3", 443)),
            start=number * 13 * MS,
            **path(8),
        )


@capture("shared counters and long pauses, nothing lost", ["healthy_idle"], FAULTS, [], ["[Ll]ost|loss"])
def shared_identifications_and_pauses(world):
    ids = [60_000]
    for number in range(4):
        Pair(
            world,
            requests(8, think=400 * MS, answer=20_000),
            answers(8, answer=20_000),
            server=dict(ids=ids),
            addresses=(("10.1.0.2", 41_100 + number), ("10.2.0.3", 443)),
            start=number * 3 * MS,
            **path(20),
        )


@capture("acknowledgements get lost, data does not", ["healthy"], ["path_loss", "queue_overflow", "loss_before_capture", "server_slow"], [])
def lost_acknowledgements(world):
    lose = Filter(lambda n, p: 0 if p.len == 0 and not p.flags & (SYN | FIN) and n % 5 == 0 else 1, of_all=True)
    Pair(world, upload(900_000), sink(), client=dict(cwnd_max=90_000), **path(10, back=[lose]))


# Opening and closing


@capture("the first SYN is lost", ["syn_lost"], ["server_slow", "client_idle"], ["SYN"])
def lost_syn(world):
    lose = Filter(lambda n, p: 0 if n == 1 else 1, of_all=True)
    Pair(world, requests(2), answers(2), **path(5, there=[lose]))


@capture("the first SYN-ACK is lost, captured at the server", ["syn_lost"], ["server_slow", "client_idle"], ["SYN-ACK"])
def lost_syn_ack(world):
    lose = Filter(lambda n, p: 0 if n == 1 else 1, of_all=True)
    Pair(world, requests(2), answers(2), **path(5, "server", back=[lose]))


@capture("the server refuses", ["refused"], ["server_slow"], ["[Rr]efused"])
def refused(world):
    pair = Pair(world, requests(1), answers(1), answers=False, **path(5))

    def refuse(packet):
        answer = Packet(src=pair.server.address, dst=pair.client.address, ack=packet.seq + 1, flags=RST | ACK)
        pair.server.path(answer)

    pair.server.get = refuse
    pair.client.path = connect_path(world, path(5)["there"], refuse)


@capture("the SYN is not answered", ["unanswered"], [], ["[Nn]o answer"], ["ICMP"])
def unanswered(world):
    Pair(world, requests(1), answers(1), **path(5, there=[Filter(lambda n, p: 0, of_all=True)]))


def with_icmp(world, kind, code, addresses=(("10.1.0.2", 40_000), ("10.2.0.3", 443)), router="10.1.0.1", times=3):
    back = []

    def answer(packet, _mtu):
        error = icmp(router, packet, kind, code)
        error.mtu = None
        world.after(4 * MS, lambda: world.capture(error))

    elements = dict(there=[TAP, Mtu(0, router, answer)], back=[TAP])
    Pair(world, requests(1), answers(1), addresses=addresses, client=dict(syn_retries=times - 1), **elements)
    del back


@capture("a router says: host unreachable", ["icmp_unreachable"], ["unanswered"], ["10.1.0.1", "unreachable"], ["nothing came back|[Nn]o answer"])
def host_unreachable(world):
    with_icmp(world, 3, 1)


@capture("a firewall says: administratively prohibited", ["icmp_prohibited"], ["unanswered"], ["prohibit", "firewall"], ["nothing came back|[Nn]o answer"])
def prohibited(world):
    with_icmp(world, 3, 13)


@capture("REJECT: port unreachable", ["icmp_unreachable"], ["unanswered"], ["port"], ["nothing came back|[Nn]o answer"])
def port_unreachable(world):
    with_icmp(world, 3, 3, router="10.2.0.3", times=1)


@capture("a routing loop: time exceeded", ["icmp_time_exceeded"], ["unanswered"], ["loop|time exceeded"], ["nothing came back|[Nn]o answer"])
def routing_loop(world):
    with_icmp(world, 11, 0, router="10.1.9.9")


@capture("IPv6: no route to the destination", ["icmp_unreachable"], ["unanswered"], ["route"], ["nothing came back|[Nn]o answer"])
def no_route_ipv6(world):
    with_icmp(world, 1, 0, (("2001:db8:1::2", 40_001), ("2001:db8:2::3", 443)), "2001:db8:1::1")


@capture("IPv6: prohibited by a firewall", ["icmp_prohibited"], ["unanswered"], ["prohibit"], ["nothing came back|[Nn]o answer"])
def prohibited_ipv6(world):
    with_icmp(world, 1, 1, (("2001:db8:1::2", 40_001), ("2001:db8:2::3", 443)), "2001:db8:1::1")


@capture("ICMP for another connection is no matter of this one", ["healthy"], FAULTS + ["icmp_unreachable"], [], ["ICMP|unreachable"])
def other_icmp(world):
    Pair(world, requests(5), answers(5), **path(5))
    other = Packet(src=("10.1.0.2", 47_000), dst=("10.9.9.9", 80), seq=5, flags=SYN)
    world.after(12 * MS, lambda: world.capture(icmp("10.1.0.1", other, 3, 1)))


def with_mtu(world, mtu, honours, silent_router=False, v6=False, size=100_000):
    addresses = (("2001:db8:1::2", 40_001), ("2001:db8:2::3", 443)) if v6 else (("10.1.0.2", 40_000), ("10.2.0.3", 443))
    router = "2001:db8:1::1" if v6 else "10.1.0.1"
    pair = None

    def back(packet, mtu):
        error = icmp(router, packet, 2 if v6 else 3, 0 if v6 else 4, mtu)
        error.mtu = mtu
        world.after(4 * MS, lambda: (world.capture(error), pair.client.get(error)))

    elements = dict(
        there=[TAP, Delay(2 * MS), Mtu(mtu, None if silent_router else router, back), Delay(3 * MS)],
        back=[Delay(5 * MS), TAP],
    )
    options = dict(honours_icmp=honours, mss=1428 if v6 else 1448)
    pair = Pair(world, requests(1, size=size, answer=500), answers(1, size=size, answer=500), addresses=addresses, client=options, **elements)


@capture("fragmentation needed, the sender sends smaller segments: path MTU discovery works", ["pmtu_discovery"], ["pmtu_black_hole", "path_loss", "queue_overflow"], ["MTU", "1400"])
def path_mtu_discovery(world):
    with_mtu(world, 1400, True)


@capture("packet too big, the sender sends smaller segments (IPv6)", ["pmtu_discovery"], ["pmtu_black_hole", "path_loss"], ["MTU", "1380"])
def path_mtu_discovery_ipv6(world):
    with_mtu(world, 1380, True, v6=True)


@capture("fragmentation needed, but the sender keeps its size: black hole", ["pmtu_black_hole"], ["pmtu_discovery", "server_slow"], ["MTU"])
def path_mtu_ignored(world):
    with_mtu(world, 1400, False)


@capture("large segments vanish without ICMP, small ones pass: black hole", ["pmtu_black_hole"], ["pmtu_discovery", "server_slow"], ["MTU"])
def path_mtu_black_hole(world):
    with_mtu(world, 1400, True, silent_router=True)


@capture("large answers vanish without ICMP, captured at the client: it sees a gap", [], ["pmtu_discovery", "client_idle", "healthy"], [])
def black_hole_of_answers(world):
    def client():
        yield ("send", 300)
        yield ("wait", 10 * SECOND)
        yield ("close",)

    Pair(world, client(), answers(1, answer=30_000), there=[TAP, Delay(5 * MS)], back=[Mtu(1400), Delay(5 * MS), TAP])


@capture("the server vanishes after 3 answers: data is not acknowledged any more", ["peer_vanished"], ["server_slow"], ["server", "vanished|not answer|no longer answer"])
def server_vanishes(world):
    pair = Pair(world, requests(20, think=50 * MS), answers(20), **path(5))
    world.at(170 * MS, lambda: setattr(pair.server, "dead", True))


@capture("idle, then keepalives are not answered: the peer is dead", ["peer_vanished"], ["server_slow"], ["keep-?alive"])
def dead_peer_found_by_keepalive(world):
    pair = Pair(world, requests(2, last=600 * SECOND), answers(2), client=dict(keepalive=(30 * SECOND, 5 * SECOND, 5)), **path(5))
    world.at(SECOND, lambda: setattr(pair.server, "dead", True))


@capture("a NAT forgot the connection after 400 s of idling: RST to the next request", ["reset_after_idle"], ["server_slow"], ["NAT|firewall"])
def reset_after_idle(world):
    pair = Pair(world, requests(2, think=400 * SECOND), answers(2), **path(5))
    world.at(10 * SECOND, lambda: setattr(pair.server, "state", "reset"))


@capture("the server resets in the middle of its answer", ["reset"], ["server_slow", "reset_after_idle"], ["[Rr]eset by the server"])
def server_resets(world):
    def server():
        yield ("receive", 300)
        yield ("send", 20_000)
        yield ("wait", 30 * MS)
        yield ("reset",)

    Pair(world, requests(1, answer=90_000), server(), **path(5))


# Before the connection


def merge(world, most):
    """Packets of one end that follow each other at once and are adjacent become one, as before segmentation offload."""
    merged, last, last_time = [], {}, 0
    for time, packet in world.packets:
        before = last.get(packet.src)
        is_next = before and packet.len == 1_448 and before.len and before.seq + before.len == packet.seq
        if is_next and time - last_time < 20_000 and before.len < most * 1_448 and not packet.flags & FIN:
            before.len += packet.len
            before.flags |= packet.flags
        else:
            merged.append((time, packet))
            last[packet.src] = packet
        last_time = time
    world.packets = merged


def with_lookup(world, steps, start):
    client, resolver = ("10.1.0.2", 53_001), ("10.1.0.53", 53)
    for when, number, name, kind, answer in steps:
        if answer is None:
            packet = dns(client, resolver, number, name, kind)
        else:
            packet = dns(resolver, client, number, name, kind, answer)
        world.at(when, lambda packet=packet: world.capture(packet))
    Pair(world, requests(2), answers(2), start=start, **path(5))


NAME = "api.shop.example"


@capture("the name server answers after 2.3 s", ["name_lookup_slow"], ["server_slow", "client_idle"], ["2\\.3", NAME])
def slow_name_lookup(world):
    with_lookup(world, [(0, 7, NAME, 1, None), (2_300 * MS, 7, NAME, 1, ["10.2.0.3"])], 2_301 * MS)


@capture("the first query is not answered, the second after 5 s is", ["name_lookup_slow"], ["server_slow", "client_idle"], ["5\\.0", NAME])
def repeated_name_lookup(world):
    steps = [(0, 7, NAME, 1, None), (5_000 * MS, 7, NAME, 1, None), (5_012 * MS, 7, NAME, 1, ["10.2.0.3"])]
    with_lookup(world, steps, 5_013 * MS)


@capture("A is answered at once, AAAA after 4 s: the program waits for both", ["name_lookup_slow"], ["server_slow", "client_idle"], ["4\\.0", NAME, "AAAA"])
def slow_aaaa_lookup(world):
    steps = [
        (0, 7, NAME, 1, None),
        (10_000, 8, NAME, 28, None),
        (12 * MS, 7, NAME, 1, ["10.2.0.3"]),
        (4_010 * MS, 8, NAME, 28, []),
    ]
    with_lookup(world, steps, 4_011 * MS)


@capture("the name server answers after 12 ms", ["healthy"], FAULTS + ["name_lookup_slow"], [], ["lookup of .* took"])
def fast_name_lookup(world):
    with_lookup(world, [(0, 7, NAME, 1, None), (12 * MS, 7, NAME, 1, ["10.2.0.3"])], 13 * MS)


@capture("a slow lookup of another name", ["healthy"], FAULTS + ["name_lookup_slow"], [], ["other.example"])
def other_name_lookup(world):
    steps = [(0, 7, "other.example", 1, None), (2_500 * MS, 7, "other.example", 1, ["10.77.0.1"])]
    with_lookup(world, steps, 2_510 * MS)


# Round trips that vary


@capture("a path whose delay jumps between 0 and 120 ms whatever is in flight", ["jitter"], ["bufferbloat", "server_slow", *LOSS], ["vary|varies|variation|jitter"])
def jitter(world):
    numbers = Random(11)
    held = Jitter(lambda n, p: numbers.below(120) * MS)
    Pair(world, requests(200, think=20 * MS), answers(200), **path(10, back=[held]))


@capture("a long queue at 4 Mbit/s: the round trip grows with the data in flight", ["bufferbloat"], ["jitter", "server_slow", "queue_overflow"], ["queue|buffer"])
def bufferbloat(world):
    Pair(world, upload(3_000_000), sink(), client=dict(cwnd_max=500_000), **path(10, there=[Shaper(500_000)]))


@capture("a long queue at 4 Mbit/s in the download", ["bufferbloat"], ["jitter", "server_slow", "queue_overflow"], ["queue|buffer"])
def bufferbloat_of_download(world):
    Pair(world, requests(1, answer=3_000_000), answers(1, answer=3_000_000), server=dict(cwnd_max=500_000), **path(10, "server", back=[Shaper(500_000)]))


@capture("a path of 250 ms, constant: no stall, no jitter", ["healthy"], FAULTS, [], ["[Ss]tall"])
def long_path(world):
    Pair(world, requests(10), answers(10), **path(125))


@capture("nothing came for 900 ms on a path of 4 ms, once: a pause of the network", [], ["server_slow", "client_idle"], [])
def interrupted_path(world):
    def outage(n, packet):
        return 0 if 300 * MS < world.now < 1_100 * MS else 1

    Pair(world, upload(4_000_000), sink(), client=dict(cwnd_max=40_000), **path(2, there=[Shaper(2_000_000), Filter(outage, of_all=True)]))


# Captures that begin in the middle


def begin_at(world, number):
    world.run()
    world.packets = world.packets[number:]


@capture("the server sleeps 600 ms; the capture begins with its answer: the port shows who is the server", ["server_slow"], ["client_idle", "healthy_idle"], ["10.2.0.3:443"])
def begins_with_an_answer(world):
    Pair(world, requests(6), answers(6, work=600 * MS), **path(10))
    begin_at(world, 8)


@capture("the client thinks for 700 ms; the capture begins with an ACK of the server", ["client_idle"], ["server_slow", *LOSS])
def begins_with_an_ack(world):
    pair = Pair(world, requests(6, think=700 * MS), answers(6), addresses=(("10.1.0.2", 51_000), ("10.2.0.3", 8080)), **path(10, "server"))
    world.run()
    of_server = next(n for n, (_, p) in enumerate(world.packets) if p.src == pair.server.address and n > 8)
    world.packets = world.packets[of_server:]


# Delays


def held(from_ms, until_ms):
    """Holds what passes within this time until its end."""
    return lambda world: Jitter(lambda n, p: max(until_ms * MS - world.now, 0) if world.now > from_ms * MS else 0)


@capture("the answers take 3 ms, but the way back up to 1.2 s, now and then", ["jitter"], ["server_slow", *LOSS], [], ["program of the server is slow"])
def delay_spikes_on_the_way_back(world):
    numbers = Random(5)
    late = Jitter(lambda n, p: (400 + numbers.below(800)) * MS if numbers.below(5) == 0 else numbers.below(40) * MS)
    Pair(world, requests(60, think=150 * MS), answers(60, work=3 * MS), client=dict(min_rto=3 * SECOND), server=dict(min_rto=3 * SECOND), **path(20, back=[late]))


@capture("the SYN-ACK comes after 900 ms, the round trip is 40 ms", ["setup_slow"], ["syn_lost", "server_slow", "healthy"], ["900ms", "nothing was lost"])
def slow_syn_ack(world):
    late = Jitter(lambda n, p: 860 * MS if n == 1 else 0)
    Pair(world, requests(5), answers(5), **path(20, back=[late]))


@capture("the SYN-ACK comes 10 ms after the SYN was sent again, too soon for the round trip of 40 ms", ["setup_slow"], ["syn_lost", "server_slow", "healthy"], ["nothing was lost"], ["was lost\\. "])
def needless_syn(world):
    late = Jitter(lambda n, p: 970 * MS if n == 1 else 0)
    Pair(world, requests(5), answers(5), **path(20, back=[late]))


@capture("a delay of 1.2 s once, two retransmissions, both reported as duplicates; no timestamps", ["spurious_retransmissions"], LOSS[:3], ["nothing was lost"])
def needless_timeouts_without_timestamps(world):
    late = Jitter(lambda n, p: 1_200 * MS if n == 60 else 0)
    options = dict(timestamps=False)
    Pair(world, upload(300_000), sink(), client=dict(cwnd_max=40_000, **options), server=options, **path(20, there=[late]))


@capture("a bottleneck of 8 Mbit/s with a queue that doubles the round trip", ["bufferbloat"], ["healthy", "jitter", *LOSS], ["queue"])
def standing_queue(world):
    Pair(world, upload(4_000_000), sink(), client=dict(cwnd_max=70_000), **path(12, there=[Shaper(1_000_000)]))


@capture("a bottleneck of 8 Mbit/s with a queue that doubles the round trip, captured at the receiver", ["bufferbloat"], ["healthy", "jitter", *LOSS], ["queue"])
def standing_queue_captured_there(world):
    Pair(world, upload(4_000_000), sink(), client=dict(cwnd_max=70_000), **path(12, "server", there=[Shaper(1_000_000)]))


@capture("a delay that jumps up to 80 ms while an upload goes on, in order: no queue", [], ["bufferbloat", *LOSS], [], ["queue on the path"])
def jitter_of_an_upload(world):
    numbers = Random(17)
    late = Jitter(lambda n, p: numbers.below(80) * MS)
    Pair(world, upload(4_000_000), sink(), client=dict(cwnd_max=300_000, min_rto=SECOND), **path(25, "server", there=[late]))


@capture("a long queue of 400 KB overflows: one cause", ["bufferbloat|queue_overflow"], ["path_loss", "loss_before_capture", "healthy"], ["overflows"])
def long_queue_overflows(world):
    Pair(world, upload(4_000_000), sink(), client=dict(initial_window=10), **path(10, there=[Shaper(1_000_000, 400_000)]))


# What limits


@capture("the server reads 20 KB each 50 ms from a small buffer, the window never closes", ["slow_reader|receiver_window"], ["healthy", "path_limited", "server_slow", *LOSS])
def reader_that_opens_the_window_in_steps(world):
    Pair(world, upload(1_500_000), sink(), server=dict(receive_buffer=30_000, reader=(20_000, 50 * MS, 0)), **path(10))


@capture("no window scaling on a path of 100 ms", ["receiver_window"], ["healthy", "path_limited", "send_buffer", *LOSS], ["window scaling", "64KB"])
def no_window_scaling(world):
    no_scale = dict(scale=None, receive_buffer=65_535)
    Pair(world, upload(3_000_000), sink(), client=dict(scale=None), server=no_scale, **path(50))


@capture("a reader that stops three times for 700 ms: no pause of the writing program", ["slow_reader"], ["sender_paced", "client_idle", "healthy", *LOSS])
def reader_stops_and_goes(world):
    Pair(world, upload(3_000_000), sink(), server=dict(receive_buffer=262_144, reader=(500_000, 700 * MS, 0)), **path(10))


@capture("30 KB each 15 ms on a path of 40 ms: the pauses are shorter than a round trip", ["sender_paced"], ["healthy", "path_limited", *LOSS], ["client"])
def paced_within_the_round_trip(world):
    Pair(world, paced(150, 30_000, 15 * MS), sink(), client=dict(cwnd_max=600_000, initial_window=80), **path(20))


@capture("a request, then the server sends something each 700 ms", ["healthy_idle"], ["server_slow", *LOSS], [], ["slow"])
def pushed_after_a_request(world):
    def server():
        yield ("receive", 120)
        for _ in range(12):
            yield ("wait", 700 * MS)
            yield ("send", 700)
        yield ("close",)

    def client():
        yield ("send", 120)
        yield ("end",)
        yield ("close",)

    Pair(world, client(), server(), **path(10))


@capture("30 answers of 100 ms each: they are what the time is spent on", ["server_slow"], ["healthy", "client_idle", "path_limited", *LOSS])
def many_answers_of_100_ms(world):
    Pair(world, requests(30), answers(30, work=100 * MS), **path(2))


# More losses


@capture("2 % of the segments behind the capture are lost, in packets of many segments", ["path_loss"], ["loss_before_capture", "healthy"], ["\\((1\\.[5-9]|2\\.[0-9])"])
def losses_in_large_packets(world):
    Pair(world, upload(3_000_000), sink(), **path(10, there=[Filter(random_loss(8, 20))]))
    world.run()
    merge(world, 8)


@capture("1,000 of 3,000 segments are lost before the capture", ["loss_before_capture"], ["path_loss", "healthy"], ["before they reached"])
def many_losses_before_capture(world):
    lose = Filter(lambda n, p: 0 if 300 <= n < 2_300 and n % 2 else 1)
    Pair(world, upload(4_500_000), sink(), client=dict(initial_window=4_000, min_rto=3 * SECOND), **path(20, "server", there=[lose]))


@capture("the end of two answers is lost before the capture: a timeout, no pause of the program", ["loss_before_capture|retransmission_timeouts"], ["sender_paced", "server_slow", "healthy", "healthy_idle"])
def lost_ends_of_answers(world):
    seen = set()

    def lose(n, packet):
        # The last segment of the second and of the fourth answer, the first time.
        is_end = packet.len and packet.len < 1_448 and packet.seq not in seen
        seen.add(packet.seq)
        number = len(ends) if is_end else 0
        if is_end:
            ends.append(packet.seq)
        return 0 if is_end and number in (1, 3) else 1

    ends = []
    size = 14 * 1_448 + 700
    Pair(world, requests(5, answer=size), answers(5, answer=size, work=5 * MS), server=dict(initial_window=20, min_rto=800 * MS), **path(20, back=[Filter(lose)]))


# Opening and closing, again


@capture("a firewall resets the first request after 6 s of silence", ["reset_after_idle"], ["server_slow", "healthy", "healthy_idle"], ["6\\.0s of silence"])
def reset_after_a_short_silence(world):
    pair = Pair(world, requests(2, think=6 * SECOND), answers(2), **path(5))
    world.at(3 * SECOND, lambda: setattr(pair.server, "state", "reset"))


@capture("the port answered one connection, and no other: its accept queue is full", ["unanswered"], [], ["accept queue", "10.2.0.3:443"], ["host is down"])
def full_accept_queue(world):
    Pair(world, requests(1, last=8 * SECOND), answers(1), **path(5))
    lost = path(5, there=[Filter(lambda n, p: 0, of_all=True)])
    Pair(world, requests(1), answers(1), addresses=(("10.1.0.2", 40_777), ("10.2.0.3", 443)), start=SECOND, **lost)


@capture("three names of a search list fail, each after 400 ms, before the fourth is found", ["name_lookup_slow"], ["server_slow", "client_idle", "healthy"], ["db.example.net", "3 other names"])
def failing_search_list(world):
    client, resolver = ("10.1.0.2", 53_001), ("10.1.0.53", 53)
    names = ["db.corp.example", "db.eu.example", "db.example"]
    for number, name in enumerate(names):
        when = number * 401 * MS
        for at, packet in [
            (when, dns(client, resolver, number, name, 1)),
            (when + 400 * MS, dns(resolver, client, number, name, 1, [], 3)),
        ]:
            world.at(at, lambda packet=packet: world.capture(packet))
    with_lookup(world, [(1_203 * MS, 9, "db.example.net", 1, None), (1_215 * MS, 9, "db.example.net", 1, ["10.2.0.3"])], 1_216 * MS)


@capture("the clock of the capture is set back by 2 s while the server sleeps 600 ms each time", ["server_slow"], ["client_idle", "healthy"], ["600ms"])
def clock_set_back(world):
    Pair(world, requests(8), answers(8, work=600 * MS), **path(5))
    world.run()
    half = len(world.packets) // 2
    world.packets = [(t + 5 * SECOND, p) for t, p in world.packets[:half]] + [(t + 3 * SECOND, p) for t, p in world.packets[half:]]

def main(folder):
    labels = []
    for name, make, cause, finds, lacks, says, never, snaplen in CAPTURES:
        world = World()
        make(world)
        world.run(1_000_000 * SECOND)
        assert world.packets, name
        write(f"{folder}/{name}.pcap", world.packets, snaplen)
        labels.append(
            dict(name=name, cause=cause, finds=list(finds), lacks=list(lacks), says=list(says), never=list(never))
        )
    with open(f"{folder}/labels.json", "w", encoding="utf-8") as file:
        json.dump(labels, file, indent=1)


if __name__ == "__main__":
    main(sys.argv[1])
