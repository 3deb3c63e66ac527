//! What is borrowed comes back, and only where it must.

use unspool_code_cache::emit::{Gpr, TARGET, gpr};
use unspool_code_cache::slots::{SlotsPart, TARGET_SPILL, offset, slots};

use super::super::executed::{FreeSlots, copy, execute, item, untouched, value};
use super::{Borrowed, Content, MOST, RAX_SPILL};
use crate::translate::copy::Builder;
use crate::translate::item::Item;

/// The register that is borrowed first.
const FIRST: Gpr = 8;

/// Emits code that uses a register and leaves garbage there.
fn use_register(builder: &mut Builder, borrowed: &mut Borrowed, avoided: u16) -> Gpr {
    let [register] = borrowed.take(builder, None, avoided);
    builder.code.load_immediate(register, 0x0bad);
    register
}

/// Emits an instruction of the program, as the walk does.
fn program(builder: &mut Builder, borrowed: &mut Borrowed, item: &Item) {
    borrowed.settle(builder, item);
    copy(builder, item);
    borrowed.forget_overwritten(builder, item);
}

fn length(builder: &Builder) -> usize {
    usize::from(builder.offset())
}

#[test]
fn neighbours_share_one_spill() {
    let mut lengths = Vec::new();
    let state = execute(|builder| {
        let mut borrowed = Borrowed::default();
        for _ in 0..3 {
            let before = length(builder);
            assert_eq!(use_register(builder, &mut borrowed, 0), FIRST);
            lengths.push(length(builder) - before);
        }
        borrowed.give_back_all(builder);
    });
    assert_eq!(state, untouched());
    assert!(lengths[0] > lengths[1] && lengths[1] == lengths[2]);
}

#[test]
fn without_giving_back_the_program_sees_garbage() {
    let state = execute(|builder| {
        use_register(builder, &mut Borrowed::default(), 0);
    });
    assert_eq!(state.registers[usize::from(FIRST)], 0x0bad);
}

#[test]
fn a_register_comes_back_before_it_is_used() {
    let add = item(&[0x4c, 0x01, 0xc0]); // add rax, r8
    let state = execute(|builder| {
        let mut borrowed = Borrowed::default();
        use_register(builder, &mut borrowed, 0);
        program(builder, &mut borrowed, &add);
        assert!(borrowed.is_empty());
    });
    assert_eq!(state.registers[0], value(gpr::RAX) + value(FIRST));
    assert_eq!(state.registers[8], value(FIRST));
}

#[test]
fn a_register_that_is_overwritten_never_comes_back() {
    let set = item(&[0x41, 0xb8, 7, 0, 0, 0]); // mov r8d, 7
    let part = item(&[0x41, 0xb0, 7]); // mov r8b, 7
    for (item, wanted) in [(set, 7), (part, value(FIRST) & !0xff | 7)] {
        let mut emitted = 0;
        let mut dead = (0, 0);
        let state = execute(|builder| {
            let mut borrowed = Borrowed::default();
            use_register(builder, &mut borrowed, 0);
            let before = length(builder);
            program(builder, &mut borrowed, &item);
            emitted = length(builder) - before - usize::from(item.layout.length);
            let [spill] = builder.new_fragment.spills[..] else {
                panic!("one register was spilled");
            };
            dead = (usize::from(spill.start), usize::from(spill.end) - before);
        });
        assert_eq!(state.registers[usize::from(FIRST)], wanted);
        let is_dead = wanted == 7;
        assert_eq!(emitted == 0, is_dead);
        if is_dead {
            // If the instruction faults, the program's value is still to be found.
            assert_eq!(dead.1, usize::from(item.layout.length));
        }
    }
}

#[test]
fn a_register_stays_borrowed_across_what_does_not_use_it() {
    let other = item(&[0x48, 0xff, 0xc3]); // inc rbx
    let state = execute(|builder| {
        let mut borrowed = Borrowed::default();
        use_register(builder, &mut borrowed, 0);
        program(builder, &mut borrowed, &other);
        assert!(borrowed.slot_of(FIRST).is_some());
        borrowed.give_back_all(builder);
    });
    assert_eq!(state.registers[usize::from(FIRST)], value(FIRST));
    assert_eq!(state.registers[3], value(gpr::RBX) + 1);
}

#[test]
fn everything_comes_back_before_branches_and_far_operands() {
    let call = [0xe8, 0, 0, 0, 0];
    let relative = [0x48, 0x8b, 0x05, 0, 0, 0, 0]; // mov rax, [rip]
    for bytes in [&call[..], &relative] {
        let item = item(bytes);
        execute(|builder| {
            let mut borrowed = Borrowed::default();
            use_register(builder, &mut borrowed, 0);
            borrowed.settle(builder, &item);
            assert!(borrowed.is_empty());
        });
    }
}

#[test]
fn a_third_register_takes_the_place_of_one_that_is_needed() {
    let state = execute(|builder| {
        let mut borrowed = Borrowed::default();
        let [first, second]: [Gpr; 2] = borrowed.take(builder, None, 0);
        builder.code.load_immediate(first, 1);
        builder.code.load_immediate(second, 2);
        let third = use_register(builder, &mut borrowed, 1 << first | 1 << second);
        assert!(third != first && third != second);
        borrowed.take_this(builder, gpr::RCX, 1 << third);
        builder.code.load_immediate(gpr::RCX, 3);
        assert!(borrowed.slot_of(third).is_some());
        borrowed.give_back_all(builder);
    });
    assert_eq!(state, untouched());
}

#[test]
fn what_is_taken_first_is_not_given_back_for_the_second() {
    let state = execute(|builder| {
        let mut borrowed = Borrowed::default();
        let [first, second]: [Gpr; 2] = borrowed.take(builder, None, 0);
        // The next instruction does not need the first, but it is not to be used before it.
        let [one, other]: [Gpr; 2] = borrowed.take(builder, None, 1 << first);
        assert_eq!(one, second);
        for register in [one, other] {
            assert!(borrowed.slot_of(register).is_some());
            builder.code.load_immediate(register, 0x0bad);
        }
        borrowed.give_back_all(builder);
    });
    assert_eq!(state, untouched());
}

#[test]
fn flags_that_are_live_come_back() {
    let change = [0x4d, 0x85, 0xff]; // test r15, r15
    for (live, same) in [(true, true), (false, false)] {
        let state = execute(|builder| {
            let mut borrowed = Borrowed::default();
            borrowed.take_flags(builder, live);
            assert_eq!(borrowed.has_flags(), live);
            builder.code.bytes(&change);
            borrowed.give_back_all(builder);
        });
        assert_eq!(state.flags == untouched().flags, same);
        assert_eq!(state.registers, untouched().registers);
    }
}

#[test]
fn flags_wait_for_who_reads_them_and_not_for_who_overwrites_them() {
    let move_ = item(&[0x48, 0x89, 0xd8]); // mov rax, rbx
    let overwrite = item(&[0x48, 0x01, 0xd8]); // add rax, rbx
    let read = item(&[0x48, 0x0f, 0x44, 0xc3]); // cmovz rax, rbx
    let after = |second: &Item| {
        let mut emitted = 0;
        let state = execute(|builder| {
            let mut borrowed = Borrowed::default();
            borrowed.take_flags(builder, true);
            builder.code.bytes(&[0x4d, 0x85, 0xff]); // test r15, r15
            program(builder, &mut borrowed, &move_);
            assert!(borrowed.has_flags());
            let before = length(builder);
            program(builder, &mut borrowed, second);
            assert!(!borrowed.has_flags());
            emitted = length(builder) - before - usize::from(second.layout.length);
        });
        (state, emitted)
    };
    let (state, emitted) = after(&read);
    assert_eq!(state.flags, untouched().flags);
    assert_ne!(emitted, 0);
    let (state, emitted) = after(&overwrite);
    assert_eq!(state.registers[0], 2 * value(gpr::RBX));
    assert_eq!(emitted, 0);
}

/// What inserted code leaves for inserted code further on.
const LEFT: Content = Content::Constant(0x1234_5678_9abc);

/// Emits the use of a register with [`LEFT`]. Returns it, and how many bytes that took.
fn use_content(builder: &mut Builder, borrowed: &mut Borrowed) -> (Gpr, usize) {
    let before = length(builder);
    let register = borrowed.with_content(LEFT, 0).unwrap_or_else(|| {
        let taken = borrowed.take_one(builder, 0).expect("one is free");
        LEFT.load(&mut builder.code, taken);
        borrowed.keep_content(taken, LEFT);
        taken
    });
    (register, length(builder) - before)
}

#[test]
fn content_stays_until_its_register_is_taken_or_given_back() {
    let state = execute(|builder| {
        let mut borrowed = Borrowed::default();
        let (register, _) = use_content(builder, &mut borrowed);
        let other = use_register(builder, &mut borrowed, 0);
        assert_ne!(other, register, "another register is as good");
        assert_eq!(use_content(builder, &mut borrowed), (register, 0));
        assert_eq!(borrowed.with_content(LEFT, 1 << register), None);
        borrowed.take_this(builder, register, 0);
        assert_eq!(borrowed.with_content(LEFT, 0), None);
        let (register, _) = use_content(builder, &mut borrowed);
        borrowed.give_back(builder, 1 << register);
        assert_eq!(borrowed.with_content(LEFT, 0), None);
        borrowed.give_back_all(builder);
    });
    assert_eq!(state, untouched());
}

#[test]
fn content_is_there_again_behind_a_detour() {
    let state = execute(|builder| {
        let mut borrowed = Borrowed::default();
        let (register, _) = use_content(builder, &mut borrowed);
        borrowed.restore(&mut builder.code);
        borrowed.spill(&mut builder.code, 0);
        // Into a register that is not borrowed.
        builder.code.copy(gpr::RBP, register);
        borrowed.give_back_all(builder);
    });
    let Content::Constant(left) = LEFT else {
        unreachable!("it is a constant");
    };
    assert_eq!(state.registers[usize::from(gpr::RBP)], left);
    assert_eq!(state.registers[8], value(8));
}

#[test]
fn many_are_borrowed_at_once() {
    let state = execute(|builder| {
        let mut borrowed = Borrowed::default();
        let mut taken = 0;
        assert_eq!(Borrowed::available(0), MOST);
        for _ in 0..MOST {
            let another = borrowed
                .take_another(builder, 0, taken)
                .expect("there are so many");
            assert_eq!(taken & 1 << another, 0);
            taken |= 1 << another;
            builder.code.load_immediate(another, 0x0bad);
        }
        borrowed.give_back_all(builder);
    });
    assert_eq!(state, untouched());
    assert_eq!(Borrowed::available(!(1 << 8 | 1 << 14)), 2);
}

/// What another way does: it gives back what has a content, borrows another register in its slot, and
/// takes back the flags. If it does not make good for that, the straight path finds something else.
#[test]
fn a_way_aside_leaves_borrowed_what_was() {
    const CONTENT: u64 = 0x5151;
    for makes_good in [true, false] {
        let state = execute(|builder| {
            let mut borrowed = Borrowed::default();
            borrowed.take_flags(builder, true);
            let first = use_register(builder, &mut borrowed, 0);
            let content = Content::Constant(CONTENT);
            content.load(&mut builder.code, first);
            borrowed.keep_content(first, content);
            let second = use_register(builder, &mut borrowed, 1 << first);
            let mut aside = borrowed.begun_here(builder);
            aside.give_back_flags(builder);
            aside.give_back(builder, 1 << first);
            let third = use_register(builder, &mut aside, 1 << first | 1 << second);
            assert!(![first, second].contains(&third));
            assert_eq!(aside.slot_of(third), borrowed.slot_of(first));
            if makes_good {
                aside.become_as(builder, &borrowed);
            }
            builder.code.store_slot(FreeSlots::FIRST, first);
            borrowed.give_back_all(builder);
        });
        let found = FreeSlots::of(slots()).first.get();
        assert_eq!((state == untouched()) && found == CONTENT, makes_good);
        let spilled_first = state.registers[usize::from(FIRST)] == value(FIRST);
        assert_eq!(spilled_first, makes_good);
    }
}

/// The register of targets is borrowed first where its slot has the program's value, without being stored;
/// where the slot has something else, that is what comes back.
#[test]
fn the_register_of_targets_is_borrowed_without_a_store() {
    for is_kept in [true, false] {
        let mut stored = 0;
        let state = execute(|builder| {
            if is_kept {
                builder.code.keep_target();
            } else {
                builder
                    .code
                    .store_slot_imm32(offset::spill(TARGET_SPILL), 0x0bad);
            }
            let mut borrowed = Borrowed::with_target_kept();
            let before = length(builder);
            let [taken] = borrowed.take(builder, None, 0);
            stored = length(builder) - before;
            assert_eq!(taken, TARGET);
            builder.code.load_immediate(taken, 7);
            // All others, too.
            let mut all = 1 << taken;
            for _ in 0..MOST {
                let another = borrowed
                    .take_another(builder, 0, all)
                    .expect("there are so many");
                all |= 1 << another;
            }
            borrowed.give_back_all(builder);
        });
        assert_eq!(stored, 0);
        assert_eq!(state == untouched(), is_kept);
    }
}

/// It stays borrowed where an indirect branch puts its target there, unless the branch reads it; where others
/// have been promised nothing, it comes back.
#[test]
fn the_register_of_targets_need_not_come_back_before_indirect_branches() {
    let to_target = item(&[0x41, 0xff, 0xe3]); // jmp r11
    let others = [&[0xc3][..], &[0xff, 0xd0], &[0xff, 0x20]].map(item); // ret; call rax; jmp [rax]
    execute(|builder| {
        for branch in &others {
            let mut borrowed = Borrowed::with_target_kept();
            let [taken, other] = borrowed.take(builder, None, 0);
            borrowed.settle(builder, branch);
            assert!(borrowed.slot_of(taken).is_some() && borrowed.slot_of(other).is_none());
            borrowed.leave_target(builder);
            assert!(borrowed.is_empty());
            let mut borrowed = Borrowed::default();
            borrowed.take_this(builder, TARGET, 0);
            borrowed.settle(builder, branch);
            assert!(borrowed.is_empty());
        }
        let mut borrowed = Borrowed::with_target_kept();
        borrowed.take_this(builder, TARGET, 0);
        borrowed.settle(builder, &to_target);
        assert!(borrowed.is_empty());
    });
}

/// rax waits in a register where one is free while flags are taken and come back, and in memory where none is.
#[test]
fn rax_waits_in_a_register_where_one_is_free() {
    const SCRATCH: Gpr = 14;
    const MARK: u64 = 0x3141;
    let slot = &slots().spills[usize::from(RAX_SPILL)];
    for (mut borrowed, free) in [
        (Borrowed::default(), None),
        (Borrowed::default(), Some(SCRATCH)),
        (Borrowed::with_target_kept(), Some(TARGET)),
    ] {
        if free == Some(SCRATCH) {
            borrowed.lend_scratch(SCRATCH);
        }
        slot.set(MARK);
        let mut state = execute(|builder| {
            builder.code.keep_target();
            borrowed.take_flags(builder, true);
            builder.code.bytes(&[0x84, 0xe4]); // test ah, ah
            borrowed.give_back_flags(builder);
        });
        assert_eq!(slot.get() == MARK, free.is_some());
        if free == Some(SCRATCH) {
            // It is whoever's has lent it.
            assert_eq!(state.registers[usize::from(SCRATCH)], value(gpr::RAX));
            state.registers[usize::from(SCRATCH)] = value(SCRATCH);
        }
        assert_eq!(state, untouched());
    }
}
