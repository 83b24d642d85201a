//! Properties over every instruction: encode and decode are inverse, and text is what it should be.

use proptest::prelude::*;

use super::*;

fn reg() -> impl Strategy<Value = Reg> {
    (0_u8..11).prop_map(|number| Reg::from_number(number).unwrap())
}

fn operand() -> impl Strategy<Value = Operand> {
    prop_oneof![reg().prop_map(Operand::Reg), any::<i32>().prop_map(Operand::Imm)]
}

fn width() -> impl Strategy<Value = Width> {
    prop_oneof![Just(Width::W32), Just(Width::W64)]
}

fn size() -> impl Strategy<Value = Size> {
    prop::sample::select(Size::ALL)
}

/// Any instruction that can be built.
pub(super) fn insn() -> impl Strategy<Value = Insn> {
    let alu = prop::sample::select(AluOp::ALL);
    let jump = prop::sample::select(JumpOp::ALL);
    let atomic = prop::sample::select(AtomicOp::ALL);
    let imm64 = prop_oneof![
        any::<u64>().prop_map(Imm64::Value),
        any::<i32>().prop_map(Imm64::MapFd),
        any::<(i32, u32)>().prop_map(|(fd, offset)| Imm64::MapValue { fd, offset }),
        any::<(i32, i32)>().prop_map(|(btf_id, module)| Imm64::KernelVariable { btf_id, module }),
        any::<i32>().prop_map(Imm64::Function),
        any::<i32>().prop_map(Imm64::MapIndex),
        any::<(i32, u32)>().prop_map(|(index, offset)| Imm64::MapIndexValue { index, offset }),
    ];
    let bits = prop::sample::select(vec![SwapBits::B16, SwapBits::B32, SwapBits::B64]);
    let to = prop::sample::select(vec![SwapTo::Little, SwapTo::Big, SwapTo::Other]);
    let signed = prop::sample::select(vec![SignedOp::Div, SignedOp::Mod]);
    let taken = prop::sample::select(vec![SignedBits::B8, SignedBits::B16, SignedBits::B32]);
    let newer =
        prop_oneof![
            (width(), signed, reg(), operand()).prop_map(|(width, op, dst, src)| Insn::SignedAlu {
                width,
                op,
                dst,
                src
            }),
            (width(), taken, reg(), reg()).prop_map(|(width, bits, dst, src)| Insn::MoveSigned {
                width,
                bits,
                dst,
                src
            }),
            (reg(), reg(), any::<u16>(), any::<u16>())
                .prop_map(|(dst, src, to, from)| Insn::AddrSpaceCast { dst, src, to, from }),
            (size(), reg(), reg(), any::<i16>())
                .prop_map(|(size, dst, base, off)| Insn::LoadSigned { size, dst, base, off }),
            (size(), prop::option::of(reg()), any::<i32>())
                .prop_map(|(size, index, off)| Insn::LoadPacket { size, index, off }),
            (size(), reg(), reg(), any::<i16>())
                .prop_map(|(size, dst, base, off)| Insn::LoadAcquire { size, dst, base, off }),
            (size(), reg(), any::<i16>(), reg())
                .prop_map(|(size, base, off, src)| Insn::StoreRelease { size, base, off, src }),
            any::<i32>().prop_map(|off| Insn::JumpLong { off }),
            any::<i16>().prop_map(|off| Insn::MayGoto { off }),
            any::<i32>().prop_map(|off| Insn::CallLocal { off }),
            any::<(i32, i16)>().prop_map(|(btf_id, module)| Insn::CallKernel { btf_id, module }),
        ];
    prop_oneof![
        (width(), alu, reg(), operand()).prop_map(|(width, op, dst, src)| Insn::Alu {
            width,
            op,
            dst,
            src
        }),
        (width(), reg()).prop_map(|(width, dst)| Insn::Neg { width, dst }),
        (reg(), to, bits).prop_map(|(dst, to, bits)| Insn::ByteSwap { dst, to, bits }),
        (reg(), imm64).prop_map(|(dst, value)| Insn::LoadImm64 { dst, value }),
        (size(), reg(), reg(), any::<i16>()).prop_map(|(size, dst, base, off)| Insn::Load {
            size,
            dst,
            base,
            off
        }),
        (size(), reg(), any::<i16>(), operand()).prop_map(|(size, base, off, src)| Insn::Store {
            size,
            base,
            off,
            src
        }),
        (atomic, size(), reg(), any::<i16>(), reg())
            .prop_map(|(op, size, base, off, src)| Insn::Atomic { op, size, base, off, src }),
        (width(), jump, reg(), operand(), any::<i16>())
            .prop_map(|(width, op, dst, src, off)| Insn::JumpIf { width, op, dst, src, off }),
        any::<i16>().prop_map(|off| Insn::Jump { off }),
        any::<i32>().prop_map(|helper| Insn::Call { helper }),
        Just(Insn::Exit),
        newer,
        unknown(),
    ]
}

/// A slot that is no instruction.
fn unknown() -> impl Strategy<Value = Insn> {
    any::<[u8; 8]>().prop_filter_map("an instruction", |bytes| {
        let raw = RawInsn::decode(bytes, Endianness::Little);
        // A first half of a 64-bit load could find its second one.
        (raw.opcode != 0x18 && decode(&bytes, Endianness::Little).is_err())
            .then_some(Insn::Unknown(raw))
    })
}

fn endianness() -> impl Strategy<Value = Endianness> {
    prop_oneof![Just(Endianness::Little), Just(Endianness::Big)]
}

proptest! {
    #[test]
    fn decoding_undoes_encoding(
        insns in prop::collection::vec(insn(), 0..20),
        order in endianness(),
    ) {
        let bytes = encode(&insns, order);
        prop_assert_eq!(bytes.len(), insns.iter().map(Insn::slots).sum::<usize>() * SLOT_BYTES);
        if !insns.iter().any(|insn| matches!(insn, Insn::Unknown(_))) {
            prop_assert_eq!(decode(&bytes, order), Ok(insns.clone()));
        }
        prop_assert_eq!(decode_any(&bytes, order), Ok(insns));
    }

    #[test]
    fn any_slots_are_decoded_and_encoded_again(
        slots in prop::collection::vec(any::<[u8; 8]>(), 0..20),
        order in endianness(),
    ) {
        let bytes = slots.concat();
        prop_assert_eq!(encode(&decode_any(&bytes, order).unwrap(), order), bytes);
    }

    #[test]
    fn encoding_undoes_decoding(
        bytes in prop::collection::vec(any::<u8>(), 0..40),
        order in endianness(),
    ) {
        if let Ok(insns) = decode(&bytes, order) {
            prop_assert_eq!(encode(&insns, order), bytes);
        }
    }

    /// The same with bytes that often are an instruction: few opcodes, small registers, zeros.
    #[test]
    fn encoding_undoes_decoding_of_likely_bytes(
        slots in prop::collection::vec((any::<u8>(), 0_u8..13, 0_u8..13, 0_i16..2, 0_i32..3), 0..4),
        order in endianness(),
    ) {
        let bytes: Vec<u8> = slots
            .into_iter()
            .flat_map(|(opcode, dst, src, off, imm)| {
                RawInsn { opcode, dst, src, off, imm }.encode(order)
            })
            .collect();
        if let Ok(insns) = decode(&bytes, order) {
            prop_assert_eq!(encode(&insns, order), bytes);
        }
    }

    #[test]
    fn text_tells_instructions_apart(a in insn(), b in insn()) {
        // Sign extension makes `r1 = 5` of either width two texts; the one exception are sizes of
        // atomics that the verifier would refuse anyway.
        let odd = |insn: &Insn| matches!(insn, Insn::Atomic { size: Size::B | Size::H, .. });
        if a != b && !odd(&a) && !odd(&b) {
            prop_assert_ne!(a.to_string(), b.to_string());
        }
    }
}

#[test]
fn text_is_llvm_objdumps() {
    use opcode::{AluOp::*, AtomicOp, JumpOp};
    let (r0, r1, r2) = (Reg::R0, Reg::R1, Reg::R2);
    let alu = |width, op, dst, src: Operand| Insn::Alu { width, op, dst, src };
    let at = |op, size| Insn::Atomic { op, size, base: r1, off: 8, src: r2 };
    let cases = [
        (alu(Width::W64, Mov, Reg::R6, r1.into()), "r6 = r1"),
        (alu(Width::W32, Mov, r1, r1.into()), "w1 = w1"),
        (alu(Width::W64, Arsh, r1, 32.into()), "r1 s>>= 32"),
        (alu(Width::W64, Add, r1, (-4).into()), "r1 += -4"),
        (Insn::Neg { width: Width::W32, dst: r1 }, "w1 = -w1"),
        (Insn::ByteSwap { dst: r1, to: SwapTo::Big, bits: SwapBits::B16 }, "r1 = be16 r1"),
        (Insn::LoadImm64 { dst: r1, value: Imm64::Value(u64::MAX) }, "r1 = -1 ll"),
        (Insn::LoadImm64 { dst: r1, value: Imm64::MapFd(5) }, "r1 = map[fd:5]"),
        (Insn::Load { size: Size::DW, dst: r0, base: r1, off: 16 }, "r0 = *(u64 *)(r1 + 16)"),
        (
            Insn::Store { size: Size::W, base: Reg::R10, off: -4, src: r2.into() },
            "*(u32 *)(r10 - 4) = r2",
        ),
        (Insn::Store { size: Size::B, base: r1, off: 0, src: 1.into() }, "*(u8 *)(r1 + 0) = 1"),
        (at(AtomicOp::Add, Size::DW), "lock *(u64 *)(r1 + 8) += r2"),
        (at(AtomicOp::FetchAdd, Size::DW), "r2 = atomic_fetch_add((u64 *)(r1 + 8), r2)"),
        (at(AtomicOp::Xchg, Size::W), "w2 = xchg_32(r1 + 8, w2)"),
        (at(AtomicOp::CmpXchg, Size::DW), "r0 = cmpxchg_64(r1 + 8, r0, r2)"),
        (
            Insn::JumpIf { width: Width::W64, op: JumpOp::Ne, dst: r2, src: 0.into(), off: 3 },
            "if r2 != 0 goto +3",
        ),
        (
            Insn::JumpIf { width: Width::W32, op: JumpOp::Sgt, dst: r2, src: r1.into(), off: -3 },
            "if w2 s> w1 goto -3",
        ),
        (Insn::Jump { off: 0 }, "goto +0"),
        (Insn::Call { helper: 5 }, "call 5"),
        (Insn::Exit, "exit"),
    ];
    for (insn, text) in cases {
        assert_eq!(insn.to_string(), text);
    }
}

#[test]
fn foreign_bytes_are_refused_with_the_slot_and_the_reason() {
    let le = |bytes: &[u8]| decode(bytes, Endianness::Little).unwrap_err();
    let exit = [0x95, 0, 0, 0, 0, 0, 0, 0];
    let after_exit = |bytes: &[u8]| [&exit[..], bytes].concat();

    let error = le(&after_exit(&[0x95, 0, 0]));
    assert_eq!(error, DecodeError { slot: 1, reason: DecodeReason::Truncated });
    let error = le(&after_exit(&[0x18, 1, 0, 0, 0, 0, 0, 0]));
    assert_eq!(error, DecodeError { slot: 1, reason: DecodeReason::HalfImm64 });
    let error = le(&[0xbf, 0x1b, 0, 0, 0, 0, 0, 0]);
    assert_eq!(error.reason, DecodeReason::NoSuchRegister(11));
    let error = le(&[0x95, 0, 0, 0, 1, 0, 0, 0]);
    assert!(matches!(error.reason, DecodeReason::ReservedField(_)));
    let error = le(&[0xff, 0, 0, 0, 0, 0, 0, 0]);
    assert!(matches!(error.reason, DecodeReason::UnknownOpcode(_)));
    assert!(error.to_string().starts_with("slot 0: unknown opcode 0xff"));
}

proptest! {
    /// Every jump of a program lands on the instruction that its label was bound to, wherever 64-bit
    /// loads stand in between.
    #[test]
    fn jumps_land_where_their_labels_are_bound(
        lines in prop::collection::vec((any::<bool>(), any::<prop::sample::Index>()), 1..60),
    ) {
        let mut asm = Assembler::new("jumps");
        let labels: Vec<Label> =
            (0..lines.len()).map(|line| asm.label(format!("line_{line}"))).collect();
        for ((wide, target), own) in lines.iter().zip(&labels) {
            asm.bind(*own);
            if *wide {
                asm.load_imm64(Reg::R0, u64::MAX);
            } else {
                asm.jump(labels[target.index(labels.len())]);
            }
        }
        let program = asm.finish().unwrap();
        let slots: Vec<usize> = program.slots().collect();
        for ((index, insn), (_, target)) in program.insns().iter().enumerate().zip(&lines) {
            if let Insn::Jump { off } = insn {
                let lands_at = slots[index] as i64 + 1 + i64::from(*off);
                prop_assert_eq!(lands_at, slots[target.index(lines.len())] as i64);
            }
        }
    }
}
