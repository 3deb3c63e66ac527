//! Which wrappers run where the hook is.

use super::{CallRegisters, Functions, Hooks, WrapperFunction, call_original};

extern "C-unwind" fn wraps(registers: &mut CallRegisters) {
    registers.integers[0] += 1;
    call_original(registers);
    registers.result += 1;
}

extern "C-unwind" fn wraps_with_arithmetic(registers: &mut CallRegisters) {
    call_original(registers);
    registers.float_result = (f64::from_bits(registers.float_result) * 1.5).to_bits();
}

extern "C-unwind" fn wraps_by_address(registers: &mut CallRegisters) {
    std::hint::black_box(call_original as fn(&mut CallRegisters))(registers);
}

fn runs_in_place(wrapper: WrapperFunction) -> bool {
    let hooks = Hooks {
        wrapper: Some(wrapper),
        ..Hooks::default()
    };
    Functions::default().wrapper_in_place(&hooks).is_some()
}

#[test]
fn wrappers_are_followed() {
    assert!(runs_in_place(wraps) || cfg!(debug_assertions));
    assert!(!runs_in_place(wraps_with_arithmetic));
    assert!(!runs_in_place(wraps_by_address));
}
