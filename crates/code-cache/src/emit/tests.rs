//! What is emitted is changed where it is, wherever that is.

use super::Emitter;

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
