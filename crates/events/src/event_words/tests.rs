//! Every event becomes words and comes back.

use proptest::prelude::*;

use super::*;
use crate::raw::Header;

/// Any event.
pub(crate) fn any_event() -> impl Strategy<Value = Event> {
    let operation = (0..5_u64).prop_map(|value| SyncOperation::from_u64(value).expect("in range"));
    prop_oneof![
        (any::<u32>(), proptest::option::of(any::<u32>())).prop_map(|(os_thread, parent)| {
            Event::ThreadStart {
                os_thread,
                parent: parent.map(ThreadId),
            }
        }),
        (any::<i64>(), ".{0,40}")
            .prop_map(|(number, name)| Event::ThreadRegistered { number, name }),
        Just(Event::ThreadEnd),
        any::<u64>().prop_map(|address| Event::ThreadPointer { address }),
        (any::<u32>(), any::<u64>(), any::<[u64; 3]>()).prop_map(
            |(function, stack_pointer, arguments)| {
                Event::FunctionCall {
                    function: FunctionId(function),
                    stack_pointer,
                    arguments,
                }
            }
        ),
        (any::<u32>(), any::<u64>(), any::<u64>()).prop_map(|(function, stack_pointer, value)| {
            Event::FunctionReturn {
                function: FunctionId(function),
                stack_pointer,
                value,
            }
        }),
        Just(Event::RegionStart),
        Just(Event::RegionEnd),
        any::<u32>().prop_map(|signal| Event::ContextChange { signal }),
        Just(Event::ThreadSync),
        (operation, any::<u64>()).prop_map(|(operation, object)| Event::Sync { operation, object }),
        (any::<u32>(), any::<[u64; 6]>())
            .prop_map(|(number, arguments)| Event::SystemCallEntry { number, arguments }),
        (any::<u32>(), any::<i64>())
            .prop_map(|(number, result)| Event::SystemCallExit { number, result }),
        (any::<bool>(), any::<u64>(), any::<u64>()).prop_map(|(write, address, size)| {
            Event::SystemMemory {
                write,
                address,
                size,
            }
        }),
        (0..13_u64, any::<u64>(), any::<u64>()).prop_map(|(operation, pc, address)| {
            Event::CacheLine {
                operation: LineOperation::from_u64(operation).expect("in range"),
                pc,
                address,
            }
        }),
        (0..3_u64, any::<u64>()).prop_map(|(fence, pc)| Event::Fence {
            fence: Fence::from_u64(fence).expect("in range"),
            pc,
        }),
        (any::<u64>(), any::<u8>()).prop_map(|(pc, size)| Event::InstructionFetch { pc, size }),
        (any::<[u64; 5]>(), any::<bool>()).prop_map(
            |([address, size, device, inode, offset], own)| Event::SharedMemory {
                address,
                size,
                device,
                inode,
                offset,
                own,
            }
        ),
        any::<u32>().prop_map(|module| Event::ModuleLoad {
            module: ModuleId(module)
        }),
        any::<u32>().prop_map(|module| Event::ModuleUnload {
            module: ModuleId(module)
        }),
        any::<u32>().prop_map(|child| Event::Fork { child }),
        Just(Event::Exec),
        (any::<u64>(), ".{0,40}").prop_map(|(words, reason)| Event::Dropped { words, reason }),
    ]
}

proptest! {
    #[test]
    fn events_come_back(event in any_event()) {
        let mut words = vec![7];
        event.encode(&mut words);
        let Header::Special { kind, argument, words: count } = Header::decode(words[1]) else {
            panic!("not a special record");
        };
        prop_assert_eq!(kind, Some(SpecialKind::Event));
        prop_assert_eq!(count, words.len() - 2);
        prop_assert_eq!(Event::decode(argument, &words[2..]), Ok(event));
    }

    #[test]
    fn any_words_are_survived(tag in 0..40_u64, words: Vec<u64>) {
        let _ = Event::decode(tag, &words);
    }

    #[test]
    fn missing_words_are_noticed(event in any_event()) {
        let mut words = Vec::new();
        event.encode(&mut words);
        let tag = words[0] & 0xff;
        if words.len() > 1 {
            prop_assert_eq!(Event::decode(tag, &words[1..words.len() - 1]), Err(EventError::Damaged(tag)));
        }
    }
}

#[test]
fn long_texts_are_cut_between_characters() {
    let event = Event::ThreadRegistered {
        number: 1,
        name: "ä".repeat(3000),
    };
    let mut words = Vec::new();
    event.encode(&mut words);
    let cut = Event::ThreadRegistered {
        number: 1,
        name: "ä".repeat(2048),
    };
    assert_eq!(Event::decode(2, &words[1..]), Ok(cut));
    assert_eq!(Event::decode(99, &[]), Err(EventError::UnknownTag(99)));
}
