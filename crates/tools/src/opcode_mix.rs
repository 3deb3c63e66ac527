//! Counts executed instructions by what they are called.

use std::collections::HashMap;

use unspool_tool::iced_x86::Mnemonic;
use unspool_tool::lock::Mutex;
use unspool_tool::{Counter, Superblock, Tool, say};

/// Counts instructions by mnemonic.
#[derive(Default)]
pub struct OpcodeMix {
    mnemonics: Mutex<HashMap<Mnemonic, Counter>>,
}

impl Tool for OpcodeMix {
    type Thread = ();

    fn instrument(&self, superblock: &Superblock<Self>) {
        let mut mnemonics = self.mnemonics.lock();
        for instruction in superblock.instructions() {
            let mnemonic = instruction.decoded().mnemonic();
            let counter = mnemonics.entry(mnemonic).or_insert_with(Counter::new);
            instruction.before().count(*counter, 1);
        }
    }

    fn end(&self) {
        let mnemonics = self.mnemonics.lock();
        let mut counts: Vec<(u64, String)> = mnemonics
            .iter()
            .map(|(mnemonic, counter)| (counter.total(), format!("{mnemonic:?}").to_lowercase()))
            .filter(|(count, _)| *count != 0)
            .collect();
        counts.sort_unstable_by(|left, right| right.0.cmp(&left.0).then(left.1.cmp(&right.1)));
        let all: u64 = counts.iter().map(|(count, _)| count).sum();
        let mut text = format!("{all} instructions");
        for (count, name) in counts {
            let share = count as f64 / all as f64 * 100.0;
            text.push_str(&format!("\n{count:>16} {share:>5.1} %  {name}"));
        }
        say(&text);
    }
}
