//! A packet filter as the program of a socket.

use sockeye_filter::pcap::{PacketFilter, TooLong};
use sockeye_sys::packet_ring::Instruction;

/// Compiles a filter; the program passes `snaplen` bytes of a packet.
///
/// # Errors
/// When it has more instructions than the kernel accepts.
pub fn packet_program(filter: &PacketFilter, snaplen: u32) -> Result<Vec<Instruction>, TooLong> {
    let program = filter.program(snaplen)?;
    let of_socket = program.into_iter().map(|instruction| Instruction {
        code: instruction.code,
        yes: instruction.yes,
        no: instruction.no,
        operand: instruction.operand,
    });
    Ok(of_socket.collect())
}
