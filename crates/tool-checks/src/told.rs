//! What the engine tells besides what is executed: threads, mappings, annotations, and the memory that
//! system calls read and write, one line for each, on standard error. Of mappings and system calls
//! those are told that are between 16 and 32 TiB, where the guest puts what it asks for.
//!
//! With `spoilt`, changes of protection and what calls write are left out.

use unspool_tool::{
    Annotation, Completeness, MappingChange, Superblock, SystemCall, ThreadInfo, Tool, say,
};

use crate::asked;

/// Above are what the kernel maps where it likes, and the stack.
const END: u64 = 1 << 45;
/// Below are the program and its break.
const START: u64 = 1 << 44;

/// The tool.
pub(crate) struct Told;

impl Tool for Told {
    type Thread = ();

    fn instrument(&self, _: &Superblock<Self>) {}

    fn thread_start(&self, thread: &ThreadInfo, _: &mut ()) {
        let parent = thread.parent.map_or("none".to_owned(), |it| it.to_string());
        say(&format!(
            "start {} by {parent} id {} at {:x} stack {:x} {:x} name {}",
            thread.number,
            thread.kernel_id,
            thread.thread_pointer,
            thread.stack.start,
            thread.stack.end,
            thread.name
        ));
    }

    fn thread_end(&self, thread: &ThreadInfo, (): ()) {
        say(&format!(
            "end {} id {} at {:x} name {}",
            thread.number, thread.kernel_id, thread.thread_pointer, thread.name
        ));
    }

    fn mapping(&self, _: &mut (), change: &MappingChange) {
        let range = &change.range;
        if range.start < START || range.end > END {
            return;
        }
        let mut line = format!("mapping {:x} {:x}:", range.start, range.end);
        for mapping in &change.mapped {
            let flag = |is, name| if is { name } else { '-' };
            if asked("spoilt") && !mapping.writable {
                return;
            }
            line += &format!(
                " {:x} {:x} {}{}{}",
                mapping.range.start,
                mapping.range.end,
                flag(mapping.readable, 'r'),
                flag(mapping.writable, 'w'),
                flag(mapping.executable, 'x')
            );
        }
        say(&line);
    }

    fn annotation(&self, _: &mut (), said: &Annotation) {
        match said {
            Annotation::Thread { number, name } => say(&format!("annotated {number} {name}")),
            Annotation::RegionStart => say("region starts"),
            Annotation::RegionEnd => say("region ends"),
        }
    }

    fn system_call_exit(&self, _: &mut (), call: &SystemCall, result: &mut i64) {
        let memory = call.memory(*result);
        for effect in memory.effects {
            if !(START..END).contains(&effect.address) || effect.write && asked("spoilt") {
                continue;
            }
            let kind = if effect.write { "write" } else { "read" };
            say(&format!(
                "kernel {kind} {:x} {}",
                effect.address, effect.size
            ));
        }
        if memory.completeness == Completeness::Unknown {
            say(&format!("kernel unknown {}", call.number));
        }
    }
}
