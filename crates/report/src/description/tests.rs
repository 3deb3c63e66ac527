//! What is learned from events.

use unspool_events::{Mapping, Order, ProcessEvent, SystemCall};

use super::*;

fn described(events: &[(u64, Event)]) -> Value {
    let header = TraceHeader {
        order: Order::LineAtomic,
        granule: 64,
        program: b"/bin/sort".to_vec(),
        arguments: vec![b"sort".to_vec(), b"-u".to_vec()],
        options: vec![("verify".to_owned(), "true".to_owned())],
        process: 7,
        parent_process: Some(6),
        start_unix_ns: 5,
        tool_version: "0.1.0".to_owned(),
    };
    let mut description = Description::new(&header);
    for id in 0..2 {
        description.module(&Module {
            id: ModuleId(id),
            path: b"/lib/plugin.so".to_vec(),
            base: 0x2000_0000,
            size: 4096,
            build_id: vec![1, 0xab],
        });
    }
    for (time, event) in events {
        description.event(ThreadId(0), *time, event);
    }
    description.to_json()
}

#[test]
fn modules_have_the_times_at_which_they_came_and_went() {
    let [first, second] = [ModuleId(0), ModuleId(1)];
    let description = described(&[
        (3, Event::Mapping(Mapping::ModuleLoad { module: first })),
        (8, Event::Mapping(Mapping::ModuleUnload { module: first })),
        (9, Event::Mapping(Mapping::ModuleLoad { module: second })),
        // Nothing is known of this one but that it came.
        (
            10,
            Event::Mapping(Mapping::ModuleLoad {
                module: ModuleId(9),
            }),
        ),
    ]);
    let modules = &description["modules"];
    let times = |number: usize| [&modules[number]["loaded"], &modules[number]["unloaded"]];
    assert_eq!(times(0), [&json!(3), &json!(8)]);
    assert_eq!(times(1), [&json!(9), &Value::Null]);
    assert_eq!(modules[0]["base"], "0x20000000");
    assert_eq!(modules[1]["build_id"], "01ab");
    assert_eq!(modules.as_array().unwrap().len(), 2);
}

#[test]
fn the_program_its_order_and_its_end_are_told() {
    let mut arguments = [0; 6];
    arguments[0] = 0x103;
    let exit = Event::SystemCall(SystemCall::Entry {
        number: EXIT_GROUP,
        arguments,
    });
    let other = Event::SystemCall(SystemCall::Entry {
        number: 0,
        arguments,
    });
    let description = described(&[(4, exit), (5, other)]);
    assert_eq!(description["program"], "/bin/sort");
    assert_eq!(description["arguments"], json!(["sort", "-u"]));
    assert_eq!(description["order"], "line-atomic");
    assert_eq!(description["options"]["verify"], "true");
    let end = json!({ "how": "exit", "status": 3, "time": 4 });
    assert_eq!(description["end"], end);
    let became_another = described(&[(6, Event::Process(ProcessEvent::Exec))]);
    assert_eq!(became_another["end"], json!({ "how": "exec", "time": 6 }));
    assert_eq!(described(&[])["end"], Value::Null);
}
