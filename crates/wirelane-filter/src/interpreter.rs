//! The interpreter: the reference for the other engines. It filters where no other engine is
//! available.

use crate::error::Result;
use crate::op::{Alu, Ancillary, Cond, MEMORY_CELLS, Op, Operand, Width};
use crate::packet::{MIN_ETHERTYPE, Packet, VISIBLE};
use crate::program::Program;

/// Runs a program instruction by instruction.
#[derive(Clone, Debug)]
pub struct Interpreter {
    ops: Box<[Op]>,
}

impl Interpreter {
    /// Prepares `program`.
    ///
    /// # Errors
    /// A usage error: the program needs data that only the kernel's socket filter has.
    pub fn new(program: &Program) -> Result<Self> {
        program.require_portable()?;
        Ok(Self { ops: program.ops().into() })
    }

    /// The number of bytes of `packet` that the program accepts; 0 rejects it.
    pub fn run(&self, packet: &Packet<'_>) -> u32 {
        // `None` is a load past the end or a division by zero.
        self.result(packet).unwrap_or(0)
    }

    fn result(&self, packet: &Packet<'_>) -> Option<u32> {
        let (mut a, mut x, mut at) = (0u32, 0u32, 0usize);
        let mut memory = [0u32; MEMORY_CELLS as usize];
        loop {
            let op = *self.ops.get(at)?;
            at += 1;
            match op {
                Op::LoadAbsolute(width, k) => a = load(packet.data, width, k)?,
                Op::LoadIndirect(width, k) => a = load(packet.data, width, x.checked_add(k)?)?,
                Op::LoadAncillary(field) => a = ancillary(packet, field)?,
                Op::LoadImmediate(k) => a = k,
                Op::LoadMemory(cell) => a = *memory.get(cell as usize)?,
                Op::LoadLength => a = packet.wire_len,
                Op::LoadXImmediate(k) => x = k,
                Op::LoadXMemory(cell) => x = *memory.get(cell as usize)?,
                Op::LoadXLength => x = packet.wire_len,
                Op::LoadXHeader(k) => x = 4 * (load(packet.data, Width::Byte, k)? & 0xf),
                Op::Store(cell) => *memory.get_mut(cell as usize)? = a,
                Op::StoreX(cell) => *memory.get_mut(cell as usize)? = x,
                Op::Alu(alu, operand) => a = compute(alu, a, value(operand, x))?,
                Op::Negate => a = a.wrapping_neg(),
                Op::Jump(skip) => at += skip as usize,
                Op::Branch { cond, operand, jt, jf } => {
                    let taken = compare(cond, a, value(operand, x));
                    at += usize::from(if taken { jt } else { jf });
                }
                Op::Return(k) => return Some(k),
                Op::ReturnA => return Some(a),
                Op::Tax => x = a,
                Op::Txa => a = x,
            }
        }
    }
}

fn value(operand: Operand, x: u32) -> u32 {
    match operand {
        Operand::K(k) => k,
        Operand::X => x,
    }
}

/// `None` past the end.
fn load(data: &[u8], width: Width, offset: u32) -> Option<u32> {
    let end = offset.checked_add(width.bytes()).filter(|end| *end <= VISIBLE)?;
    let bytes = data.get(offset as usize..end as usize)?;
    Some(bytes.iter().fold(0, |number, byte| number << 8 | u32::from(*byte)))
}

/// `None` for a division by zero.
fn compute(alu: Alu, a: u32, operand: u32) -> Option<u32> {
    Some(match alu {
        Alu::Add => a.wrapping_add(operand),
        Alu::Sub => a.wrapping_sub(operand),
        Alu::Mul => a.wrapping_mul(operand),
        Alu::Div => a.checked_div(operand)?,
        Alu::Mod => a.checked_rem(operand)?,
        Alu::And => a & operand,
        Alu::Or => a | operand,
        Alu::Xor => a ^ operand,
        Alu::Shl => a.checked_shl(operand).unwrap_or(0),
        Alu::Shr => a.checked_shr(operand).unwrap_or(0),
    })
}

fn compare(cond: Cond, a: u32, operand: u32) -> bool {
    match cond {
        Cond::Equal => a == operand,
        Cond::Greater => a > operand,
        Cond::GreaterEqual => a >= operand,
        Cond::Set => a & operand != 0,
    }
}

/// `None` past the end, or for fields that [`Program::require_portable`] refused.
fn ancillary(packet: &Packet<'_>, field: Ancillary) -> Option<u32> {
    Some(match field {
        Ancillary::Queue => packet.metadata.queue,
        Ancillary::PacketType => packet.metadata.packet_type,
        Ancillary::InterfaceIndex => packet.metadata.interface_index,
        Ancillary::VlanTci | Ancillary::VlanPresent | Ancillary::VlanTpid => 0,
        // As eth_type_trans() of net/ethernet/eth.c.
        Ancillary::Protocol => {
            let ethertype = load(packet.data, Width::Half, 12)?;
            let payload = load(packet.data, Width::Half, 14)?;
            match (ethertype, payload) {
                (MIN_ETHERTYPE.., _) => ethertype,
                (_, 0xffff) => 1,
                _ => 4,
            }
        }
        _ => return None,
    })
}
