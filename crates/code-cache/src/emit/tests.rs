//! What is emitted is changed where it is, wherever that is.

use iced_x86::{Decoder, DecoderOptions, Instruction, Register};

use super::{Emitter, Vector};

/// What another decoder reads.
fn decoded(from: impl FnOnce(&mut Emitter)) -> Vec<String> {
    let mut bytes = [0; 64];
    let mut length = 0;
    emit(&mut bytes, |code| {
        let start = code.here();
        from(code);
        length = code.here().bytes_since(start) as usize;
    });
    let instructions = Decoder::with_ip(64, &bytes[..length], 0, DecoderOptions::NONE);
    instructions
        .into_iter()
        .map(|it: Instruction| it.to_string())
        .collect()
}

fn name(register: u8) -> String {
    format!("%{:?}", Register::RAX + u32::from(register)).to_lowercase()
}

fn half(register: u8) -> String {
    format!("%{:?}", Register::EAX + u32::from(register)).to_lowercase()
}

fn emit(bytes: &mut [u8], emit: impl FnOnce(&mut Emitter)) {
    let range = bytes.as_mut_ptr_range();
    // SAFETY: the bytes are the test's.
    emit(&mut unsafe { Emitter::new(range.start, range.end, 0) });
}

#[test]
fn code_that_is_copied_later_can_be_emitted_anywhere() {
    let mut bytes = vec![0; 16];
    emit(&mut bytes, |code| {
        let field = code.jump_forward();
        code.nops(3);
        code.land(field);
        let start = code.here();
        code.bytes(&[0x75, 0]);
        code.nops(2);
        code.land_short(start.plus(1));
        assert_eq!(code.here().bytes_since(field), 11);
    });
    let expected = [0xe9, 3, 0, 0, 0, 0x0f, 0x1f, 0, 0x75, 2, 0x66, 0x90];
    assert_eq!(bytes[..12], expected);
}

#[test]
fn a_part_of_a_window_leaves_alone_what_is_behind_the_room() {
    let window: [u8; 16] = std::array::from_fn(|place| place as u8 + 1);
    for room in 0..40 {
        for length in 0..=16.min(room) {
            let mut bytes = vec![0xff; room + 16];
            emit(&mut bytes[..room], |code| {
                let start = code.here();
                code.first_of(&window, length);
                assert_eq!(code.here().bytes_since(start), length as u32);
            });
            assert_eq!(bytes[..length], window[..length]);
            assert_eq!(bytes[room..], [0xff; 16]);
        }
    }
}

#[test]
#[should_panic(expected = "it is a part of the window")]
fn more_than_a_window_is_refused() {
    emit(&mut [0; 40], |code| code.first_of(&[0; 16], 17));
}

#[test]
#[should_panic(expected = "only what is there is changed")]
fn what_is_not_emitted_yet_is_not_changed() {
    emit(&mut [0; 16], |code| code.patch8(code.here(), 1));
}

#[test]
#[should_panic(expected = "only what is there is changed")]
fn what_others_have_emitted_is_not_changed() {
    emit(&mut [0; 16], |code| {
        code.nops(4);
        code.patch32(code.here().minus(5), 1);
    });
}

#[test]
fn masks_are_handled_as_another_decoder_reads_it() {
    for to in (0..16).filter(|to| *to != 4) {
        for from in (0..16).filter(|from| *from != 4) {
            let (a, b, wide) = (name(to), name(from), half(to));
            let code = |size| decoded(|code| code.load_slot_element(to, from, 0x40, size));
            assert_eq!(code(8), [format!("mov %fs:0x40(,{b},8),{a}")]);
            assert_eq!(code(4), [format!("movslq %fs:0x40(,{b},4),{a}")]);
            let compared = decoded(|code| code.compare_halves(to, from));
            assert_eq!(compared, [format!("cmp {},{wide}", half(from))]);
            assert_eq!(
                decoded(|code| code.lowest_bit(to, from)),
                [format!("tzcnt {b},{a}")]
            );
            let cleared = [format!("lea -1({a}),{b}"), format!("and {b},{a}")];
            assert_eq!(decoded(|code| code.clear_lowest_bit(to, from)), cleared);

            if to != from {
                let packed = decoded(|code| code.pack_bits(to, from));
                let as_many = format!("popcnt {a},{b}");
                let all = format!("movabs $0xFFFFFFFFFFFFFFFF,{a}");
                assert_eq!(packed, [as_many, all, format!("bzhi {b},{a},{a}")]);
            }

            let signs = |has_vex, bytes, element| {
                let vector = Vector {
                    number: if bytes == 8 { from & 7 } else { from },
                    bytes,
                };
                decoded(|code| code.load_signs_with(has_vex, to, vector, element))
            };
            let is = |name: &str| [format!("{name} %xmm{from},{wide}")];
            assert_eq!(signs(false, 16, 1), is("pmovmskb"));
            assert_eq!(signs(false, 16, 4), is("movmskps"));
            assert_eq!(signs(false, 16, 8), is("movmskpd"));
            assert_eq!(signs(true, 16, 1), is("vpmovmskb"));
            assert_eq!(signs(true, 16, 4), is("vmovmskps"));
            assert_eq!(signs(true, 16, 8), is("vmovmskpd"));
            let is = |name: &str| [format!("{name} %ymm{from},{wide}")];
            for has_vex in [false, true] {
                assert_eq!(signs(has_vex, 32, 1), is("vpmovmskb"));
                assert_eq!(signs(has_vex, 32, 4), is("vmovmskps"));
                assert_eq!(signs(has_vex, 32, 8), is("vmovmskpd"));
                assert_eq!(
                    signs(has_vex, 8, 1),
                    [format!("pmovmskb %mm{},{wide}", from & 7)]
                );
            }
        }
        let (a, wide) = (name(to), half(to));
        assert_eq!(
            decoded(|code| code.add_slot(to, 0x40)),
            [format!("add %fs:0x40,{a}")]
        );
        assert_eq!(
            decoded(|code| code.test_mask(to)),
            [format!("test {a},{a}")]
        );
        let kept = |count| decoded(|code| code.keep_lowest_bits(to, count));
        assert!(kept(64).is_empty());
        assert_eq!(kept(32), [format!("mov {wide},{wide}")]);
        assert_eq!(kept(16), [format!("and $0xFFFF,{wide}")]);
        assert_eq!(kept(2), [format!("and $3,{wide}")]);
    }
}
