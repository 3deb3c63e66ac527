//! Every event becomes words and comes back.

use proptest::prelude::*;

use super::*;
use crate::cache_control::{Fence, LineOperation};
use crate::id::{FunctionId, ModuleId, ThreadId};
use crate::raw::Header;

/// Any event.
pub(crate) fn any_event() -> impl Strategy<Value = Event> {
    let operation = (0..5_u64).prop_map(|value| SyncOperation::from_u64(value).expect("in range"));
    prop_oneof![
        (any::<u32>(), proptest::option::of(any::<u32>())).prop_map(|(os_thread, parent)| {
            Event::Thread(ThreadEvent::Start {
                os_thread,
                parent: parent.map(ThreadId),
            })
        }),
        (any::<i64>(), ".{0,40}")
            .prop_map(|(number, name)| Event::Thread(ThreadEvent::Registered { number, name })),
        Just(Event::Thread(ThreadEvent::End)),
        (any::<u64>(), any::<Option<u64>>()).prop_map(|(address, variables)| {
            Event::Thread(ThreadEvent::Pointer { address, variables })
        }),
        (any::<u32>(), any::<u64>(), any::<[u64; 3]>()).prop_map(
            |(function, stack_pointer, arguments)| {
                Event::Span(Span::FunctionCall {
                    function: FunctionId(function),
                    stack_pointer,
                    arguments,
                })
            }
        ),
        (any::<u32>(), any::<[u64; 2]>(), any::<Option<u64>>()).prop_map(
            |(function, [stack_pointer, value], stored)| {
                Event::Span(Span::FunctionReturn {
                    function: FunctionId(function),
                    stack_pointer,
                    value,
                    stored,
                })
            }
        ),
        Just(Event::Span(Span::RegionStart)),
        Just(Event::Span(Span::RegionEnd)),
        any::<[u64; 6]>().prop_map(|arguments| Event::Span(Span::FurtherArguments { arguments })),
        (0..4_u64, any::<u64>()).prop_map(|(dependence, address)| Event::Span(Span::Dependence {
            dependence: Dependence::from_u64(dependence).expect("in range"),
            address,
        })),
        any::<u32>().prop_map(|signal| Event::Thread(ThreadEvent::HandlerCalled { signal })),
        Just(Event::Thread(ThreadEvent::ClockMoved)),
        (operation, any::<u64>()).prop_map(|(operation, object)| Event::Synchronisation(
            Synchronisation { operation, object }
        )),
        (any::<u32>(), any::<[u64; 6]>()).prop_map(|(number, arguments)| Event::SystemCall(
            SystemCall::Entry { number, arguments }
        )),
        (any::<u32>(), any::<i64>())
            .prop_map(|(number, result)| Event::SystemCall(SystemCall::Exit { number, result })),
        (any::<bool>(), any::<u64>(), any::<u64>()).prop_map(|(write, address, size)| {
            Event::MemoryEffect(MemoryEffect {
                write,
                address,
                size,
            })
        }),
        (0..13_u64, any::<u64>(), any::<u64>()).prop_map(|(operation, pc, address)| {
            Event::Instruction(InstructionEvent::CacheLine {
                operation: LineOperation::from_u64(operation).expect("in range"),
                pc,
                address,
            })
        }),
        (0..3_u64, any::<u64>()).prop_map(|(fence, pc)| Event::Instruction(
            InstructionEvent::Fence {
                fence: Fence::from_u64(fence).expect("in range"),
                pc,
            }
        )),
        (any::<u64>(), any::<u8>())
            .prop_map(|(pc, size)| Event::Instruction(InstructionEvent::Fetch { pc, size })),
        (any::<[u64; 5]>(), any::<bool>()).prop_map(
            |([address, size, device, inode, offset], own)| Event::Mapping(Mapping::Shared {
                address,
                size,
                device,
                inode,
                offset,
                own,
            })
        ),
        any::<u32>().prop_map(|module| Event::Mapping(Mapping::ModuleLoad {
            module: ModuleId(module)
        })),
        any::<u32>().prop_map(|module| Event::Mapping(Mapping::ModuleUnload {
            module: ModuleId(module)
        })),
        any::<u32>().prop_map(|child| Event::Process(ProcessEvent::Fork { child })),
        Just(Event::Process(ProcessEvent::Exec)),
        (any::<u64>(), ".{0,40}").prop_map(|(words, reason)| Event::Loss(Loss { words, reason })),
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
        prop_assert_eq!(argument >> 16, u64::from(event.stream().number().0));
        let decoded = Event::decode(event.stream(), argument as u16, &words[2..]);
        prop_assert_eq!(decoded, Ok(event));
    }

    #[test]
    fn any_words_are_survived(stream in 0..KnownStream::ALL.len(), kind in 0..9_u16, words: Vec<u64>) {
        let _ = Event::decode(KnownStream::ALL[stream], kind, &words);
    }

    #[test]
    fn missing_words_are_noticed(event in any_event()) {
        let mut words = Vec::new();
        event.encode(&mut words);
        let kind = words[0] as u16;
        let may_end_earlier = matches!(
            event,
            Event::Span(Span::FunctionReturn { stored: Some(_), .. })
                | Event::Thread(ThreadEvent::Pointer { variables: Some(_), .. })
        );
        if words.len() > 1 && !may_end_earlier {
            let decoded = Event::decode(event.stream(), kind, &words[1..words.len() - 1]);
            let stream = event.stream().name();
            prop_assert_eq!(decoded, Err(EventError::Damaged { stream, kind }));
        }
    }
}

#[test]
fn what_is_too_long_is_cut_and_says_so() {
    let encoded = |event: Event| {
        let mut words = Vec::new();
        event.encode(&mut words);
        words
    };
    let named = |name: String| Event::from(ThreadEvent::Registered { number: 1, name });
    let words = encoded(named("ä".repeat(3000)));
    let cut = Event::decode(KnownStream::Threads, 2, &words[1..]);
    assert_eq!(cut, Ok(named("ä".repeat(2048))));
}

#[test]
fn tags_of_older_files_lead_to_the_records_that_they_were() {
    let kinds: Vec<_> = (0..40).filter_map(stream_of_tag).collect();
    assert_eq!(kinds.len(), 23);
    for (stream, kind) in kinds {
        let unknown = Event::decode(stream, kind, &[0; 8]);
        assert!(unknown.is_ok(), "{unknown:?}");
    }
}

#[test]
fn streams_have_numbers_and_names_of_their_own() {
    for (index, stream) in KnownStream::ALL.iter().enumerate() {
        assert_eq!(usize::from(stream.number().0), index + 1);
        assert_eq!(KnownStream::named(stream.name()), Some(*stream));
    }
}
