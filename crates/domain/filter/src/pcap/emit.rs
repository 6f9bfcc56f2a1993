//! Code generation: from conditions to classic BPF.

use super::tree::{Arithmetic, Base, Comparison, Load, Node, Operation, Size};
use std::fmt;

/// An instruction of classic BPF (`struct sock_filter`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instruction {
    /// Opcode
    pub code: u16,
    /// Instructions to skip if the condition holds (`jt`)
    pub yes: u8,
    /// Instructions to skip if it does not hold (`jf`)
    pub no: u8,
    /// Operand (`k`)
    pub operand: u32,
}

/// A program that needs more instructions than the kernel accepts, or more registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLong;

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the filter is too long: the kernel takes {INSTRUCTIONS_MAX} instructions, and {REGISTERS} numbers to remember"
        )
    }
}

impl std::error::Error for TooLong {}

pub(super) fn program(node: Option<&Node>, snaplen: u32) -> Result<Vec<Instruction>, TooLong> {
    let mut emitter = Emitter {
        reversed: Vec::new(),
        used: 0,
    };
    let take = emitter.push(RET, snaplen)?;
    if let Some(node) = node {
        let pass = emitter.push(RET, 0)?;
        emitter.node(node, take, pass)?;
    }
    emitter.reversed.reverse();
    Ok(emitter.reversed)
}

/// A code generator. Jumps only go forward, so that the program is generated from its end: jump targets are known then.
#[derive(Debug)]
struct Emitter {
    /// Instructions, the last one first
    reversed: Vec<Instruction>,
    /// Number of scratch registers in use
    used: u32,
}

/// Index of an instruction in the reversed program.
type Label = usize;

impl Emitter {
    /// Inserts an instruction before all others.
    fn push(&mut self, code: u16, operand: u32) -> Result<Label, TooLong> {
        self.push_whole(Instruction {
            code,
            yes: 0,
            no: 0,
            operand,
        })
    }

    fn push_whole(&mut self, instruction: Instruction) -> Result<Label, TooLong> {
        if self.reversed.len() >= INSTRUCTIONS_MAX {
            return Err(TooLong);
        }
        self.reversed.push(instruction);
        Ok(self.reversed.len() - 1)
    }

    /// Inserts a conditional jump to one of two labels.
    fn branch(&mut self, code: u16, operand: u32, yes: Label, no: Label) -> Result<Label, TooLong> {
        // From an instruction that is not pushed yet, and from one that a jump follows.
        let distance = |from: usize, to: Label| from - to - 1;
        let (mut yes, mut no) = (yes, no);
        if distance(self.reversed.len() + 1, yes) > 255 {
            let far = distance(self.reversed.len(), yes);
            yes = self.push(JUMP, u32::try_from(far).map_err(|_| TooLong)?)?;
        }
        if distance(self.reversed.len(), no) > 255 {
            let far = distance(self.reversed.len(), no);
            no = self.push(JUMP, u32::try_from(far).map_err(|_| TooLong)?)?;
        }
        let here = self.reversed.len();
        let short = |to| u8::try_from(distance(here, to)).map_err(|_| TooLong);
        let instruction = Instruction {
            code,
            yes: short(yes)?,
            no: short(no)?,
            operand,
        };
        self.push_whole(instruction)
    }

    /// Inserts the code of a condition.
    fn node(&mut self, node: &Node, yes: Label, no: Label) -> Result<Label, TooLong> {
        match node {
            Node::Always(true) => self.to(yes),
            Node::Always(false) => self.to(no),
            Node::Not(node) => self.node(node, no, yes),
            Node::And(first, second) => {
                let second = self.node(second, yes, no)?;
                self.node(first, second, no)
            }
            Node::Or(first, second) => {
                let second = self.node(second, yes, no)?;
                self.node(first, yes, second)
            }
            Node::Test(load, mask, comparison, value) => {
                self.branch(comparison.code() | CONSTANT, *value, yes, no)?;
                if *mask != u32::MAX {
                    self.push(ALU | AND, *mask)?;
                }
                self.load(*load)
            }
            Node::Relation(left, comparison, right) => self.relation(left, *comparison, right, yes, no),
        }
    }

    /// Inserts a jump to a label, if one is needed.
    fn to(&mut self, place: Label) -> Result<Label, TooLong> {
        let far = self.reversed.len() - place - 1;
        self.push(JUMP, u32::try_from(far).map_err(|_| TooLong)?)
    }

    fn relation(
        &mut self,
        left: &Arithmetic,
        comparison: Comparison,
        right: &Arithmetic,
        yes: Label,
        no: Label,
    ) -> Result<Label, TooLong> {
        if let Arithmetic::Number(value) = right {
            self.branch(comparison.code() | CONSTANT, *value, yes, no)?;
            return self.arithmetic(left);
        }
        self.branch(comparison.code() | REGISTER, 0, yes, no)?;
        self.pair(left, right)
    }

    /// Inserts code that evaluates the first operand into the accumulator and the second into the index register, the first
    /// one first.
    fn pair(&mut self, first: &Arithmetic, second: &Arithmetic) -> Result<Label, TooLong> {
        let register = self.used;
        self.used += 1;
        if register >= REGISTERS {
            return Err(TooLong);
        }
        self.push(LOAD_STORED, register)?;
        self.push(TO_INDEX, 0)?;
        let result = self.arithmetic(second).and_then(|_| {
            // The first operand may use the same register before the result is stored there.
            self.push(STORE, register)
        });
        result?;
        let label = self.arithmetic(first);
        self.used = register;
        label
    }

    /// Inserts code that evaluates an expression into the accumulator.
    fn arithmetic(&mut self, sum: &Arithmetic) -> Result<Label, TooLong> {
        match sum {
            Arithmetic::Number(number) => self.push(LOAD_NUMBER, *number),
            Arithmetic::Len => self.push(LOAD_LEN, 0),
            Arithmetic::Negative(sum) => {
                self.push(ALU | NEGATE, 0)?;
                self.arithmetic(sum)
            }
            Arithmetic::Both(operation, first, second) => match **second {
                Arithmetic::Number(number) => {
                    self.push(ALU | operation.code(), number)?;
                    self.arithmetic(first)
                }
                _ => {
                    self.push(ALU | REGISTER | operation.code(), 0)?;
                    self.pair(first, second)
                }
            },
            Arithmetic::Load(size, base, index) => match (base, &**index) {
                (Base::At(start), Arithmetic::Number(number)) => {
                    // An offset behind the end of any packet, so that it is not taken for the kernel's ancillary data.
                    let at = start.checked_add(*number).filter(|at| *at < ANCILLARY);
                    self.push(size.absolute(), at.unwrap_or(ANCILLARY - 1))
                }
                (Base::At(start), index) => {
                    self.push(size.indexed(), *start)?;
                    self.push(TO_INDEX, 0)?;
                    self.arithmetic(index)
                }
                (Base::AfterIp4Header(start), Arithmetic::Number(number)) => {
                    let at = start.checked_add(*number).filter(|at| *at < ANCILLARY);
                    self.push(size.indexed(), at.unwrap_or(ANCILLARY - 1))?;
                    self.push(HEADER_LEN, *start)
                }
                (Base::AfterIp4Header(start), index) => {
                    self.push(size.indexed(), *start)?;
                    self.push(TO_INDEX, 0)?;
                    self.push(ALU | REGISTER | ADD, 0)?;
                    self.push(HEADER_LEN, *start)?;
                    self.arithmetic(index)
                }
            },
        }
    }

    fn load(&mut self, load: Load) -> Result<Label, TooLong> {
        match load {
            Load::At(at, size) => self.push(size.absolute(), at),
            Load::AfterIp4Header(start, at, size) => {
                self.push(size.indexed(), start + at)?;
                self.push(HEADER_LEN, start)
            }
            Load::Len => self.push(LOAD_LEN, 0),
            Load::Protocol => self.push(Size::Half.absolute(), ANCILLARY),
            Load::PacketType => self.push(Size::Byte.absolute(), ANCILLARY + 4),
            Load::Interface => self.push(Size::Word.absolute(), ANCILLARY + 8),
            Load::VlanTag => self.push(Size::Half.absolute(), ANCILLARY + 44),
            Load::VlanTagPresent => self.push(Size::Byte.absolute(), ANCILLARY + 48),
        }
    }
}

impl Comparison {
    const fn code(self) -> u16 {
        match self {
            Self::Equal => 0x15,
            Self::Greater => 0x25,
            Self::GreaterOrEqual => 0x35,
            Self::Intersects => 0x45,
        }
    }
}

impl Operation {
    const fn code(self) -> u16 {
        match self {
            Self::Add => ADD,
            Self::Subtract => 0x10,
            Self::Multiply => 0x20,
            Self::Divide => 0x30,
            Self::Or => 0x40,
            Self::And => AND,
            Self::ShiftLeft => 0x60,
            Self::ShiftRight => 0x70,
            Self::Remainder => 0x90,
            Self::Differ => 0xa0,
        }
    }
}

impl Size {
    /// Returns the size of this many bytes; `None` if there is none.
    pub(super) const fn of(bytes: u32) -> Option<Self> {
        match bytes {
            1 => Some(Self::Byte),
            2 => Some(Self::Half),
            4 => Some(Self::Word),
            _ => None,
        }
    }

    const fn absolute(self) -> u16 {
        0x20 | self.bits()
    }

    const fn indexed(self) -> u16 {
        0x40 | self.bits()
    }

    const fn bits(self) -> u16 {
        match self {
            Self::Word => 0x00,
            Self::Half => 0x08,
            Self::Byte => 0x10,
        }
    }
}

/// `include/uapi/linux/filter.h`, `bpf_common.h`
const INSTRUCTIONS_MAX: usize = 4096;
const REGISTERS: u32 = 16;
const CONSTANT: u16 = 0x00;
const REGISTER: u16 = 0x08;
const ALU: u16 = 0x04;
const ADD: u16 = 0x00;
const AND: u16 = 0x50;
const NEGATE: u16 = 0x80;
const RET: u16 = 0x06;
const JUMP: u16 = 0x05;
const LOAD_NUMBER: u16 = 0x00;
const LOAD_LEN: u16 = 0x80;
const LOAD_STORED: u16 = 0x60;
const STORE: u16 = 0x02;
/// `X = A`
const TO_INDEX: u16 = 0x07;
/// `X = 4 * (P[k] & 15)`
const HEADER_LEN: u16 = 0xb1;
/// `SKF_AD_OFF`; relative to it `SKF_AD_PROTOCOL`, `_PKTTYPE`, `_IFINDEX`, `_VLAN_TAG`, `_VLAN_TAG_PRESENT`
const ANCILLARY: u32 = (-0x1000_i32).cast_unsigned();
