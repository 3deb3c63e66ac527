//! Which registers there are, and how they are sent.
//!
//! The order is that of gdb's own descriptions of Linux targets (`gdb/features/i386`); which of
//! them there are depends on the processor. One table makes both the description and the bytes.

use std::fmt::Write;

use gdbstub::arch::{Arch, Registers as WireRegisters};
use unspool_debuggee::Registers;

/// The processor, for `gdbstub`. Its description is made at run time ([`Layout::description`]).
#[derive(Debug)]
pub(crate) enum X86 {}

impl Arch for X86 {
    type Usize = u64;
    type Registers = Wire;
    type BreakpointKind = usize;
    type RegId = ();
}

/// The bytes of all registers, as they are sent.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Wire(pub(crate) Vec<u8>);

impl WireRegisters for Wire {
    type ProgramCounter = u64;

    fn pc(&self) -> u64 {
        0
    }

    fn gdb_serialize(&self, mut write: impl FnMut(Option<u8>)) {
        self.0.iter().for_each(|&byte| write(Some(byte)));
    }

    fn gdb_deserialize(&mut self, bytes: &[u8]) -> Result<(), ()> {
        self.0 = bytes.to_vec();
        Ok(())
    }
}

/// Where a register's value comes from.
#[derive(Debug, Clone, Copy)]
enum Origin {
    /// A general register, by its number.
    General(usize),
    Pc,
    Flags,
    /// It never changes.
    Constant(u64),
    /// Bytes of the XSAVE area: where, and how many.
    Extended(usize, usize),
    /// The tags of the x87 registers, in the long form.
    Tags,
    FsBase,
    GsBase,
    Call,
}

#[derive(Debug)]
struct Register {
    name: String,
    bytes: usize,
    kind: &'static str,
    origin: Origin,
}

#[derive(Debug)]
struct Feature {
    name: &'static str,
    types: &'static [&'static str],
    registers: Vec<Register>,
}

/// The registers of this processor.
#[derive(Debug)]
pub(crate) struct Layout {
    features: Vec<Feature>,
    /// The components of extended state that are sent, as in the header of the XSAVE area.
    components: u64,
}

const FLAGS_TYPE: &str = r#"<flags id="i386_eflags" size="4">
<field name="CF" start="0" end="0"/><field name="" start="1" end="1"/><field name="PF" start="2" end="2"/>
<field name="AF" start="4" end="4"/><field name="ZF" start="6" end="6"/><field name="SF" start="7" end="7"/>
<field name="TF" start="8" end="8"/><field name="IF" start="9" end="9"/><field name="DF" start="10" end="10"/>
<field name="OF" start="11" end="11"/><field name="NT" start="14" end="14"/><field name="RF" start="16" end="16"/>
<field name="VM" start="17" end="17"/><field name="AC" start="18" end="18"/><field name="ID" start="21" end="21"/>
</flags>"#;
const VECTOR_TYPE: &str = r#"<vector id="v4f" type="ieee_single" count="4"/>
<vector id="v2d" type="ieee_double" count="2"/><vector id="v16i8" type="int8" count="16"/>
<vector id="v8i16" type="int16" count="8"/><vector id="v4i32" type="int32" count="4"/>
<vector id="v2i64" type="int64" count="2"/>
<union id="vec128"><field name="v4_float" type="v4f"/><field name="v2_double" type="v2d"/>
<field name="v16_int8" type="v16i8"/><field name="v8_int16" type="v8i16"/>
<field name="v4_int32" type="v4i32"/><field name="v2_int64" type="v2i64"/>
<field name="uint128" type="uint128"/></union>"#;
const MXCSR_TYPE: &str = r#"<flags id="i386_mxcsr" size="4"><field name="IE" start="0" end="0"/><field name="DE" start="1" end="1"/>
<field name="ZE" start="2" end="2"/><field name="OE" start="3" end="3"/><field name="UE" start="4" end="4"/>
<field name="PE" start="5" end="5"/><field name="DAZ" start="6" end="6"/><field name="IM" start="7" end="7"/>
<field name="DM" start="8" end="8"/><field name="ZM" start="9" end="9"/><field name="OM" start="10" end="10"/>
<field name="UM" start="11" end="11"/><field name="PM" start="12" end="12"/><field name="FZ" start="15" end="15"/>
</flags>"#;
const PAIR_TYPE: &str = r#"<vector id="v2ui128" type="uint128" count="2"/>"#;

const X87_REGISTERS: usize = 32;
const XMM: usize = 160;
const HEADER: usize = 512;
const TAGS: usize = 4;
const STATUS: usize = 2;
const AVX: u32 = 2;
const MASKS: u32 = 5;
const UPPER_HALVES: u32 = 6;
const SECOND_HALF: u32 = 7;

fn register(name: impl Into<String>, bytes: usize, kind: &'static str, origin: Origin) -> Register {
    Register {
        name: name.into(),
        bytes,
        kind,
        origin,
    }
}

/// Where a component of extended state lies in the standard format; `None` if there is none.
fn component(number: u32, enabled: u64) -> Option<usize> {
    const XSAVE_LEAF: u32 = 0xd;
    let leaf = std::arch::x86_64::__cpuid_count(XSAVE_LEAF, number);
    (enabled >> number & 1 != 0 && leaf.eax != 0).then_some(leaf.ebx as usize)
}

impl Layout {
    /// Asks the processor; `extended` is the extended state of any thread.
    pub(crate) fn of_this_processor(extended: &[u8]) -> Layout {
        // What the kernel has enabled is as long as the area that it takes.
        let enabled = (2..64)
            .filter(|&number| {
                let leaf = std::arch::x86_64::__cpuid_count(0xd, number);
                let end = leaf.ebx as usize + leaf.eax as usize;
                leaf.eax != 0 && leaf.ecx & 1 == 0 && end <= extended.len()
            })
            .fold(3_u64, |mask, number| mask | 1 << number);
        let mut features = vec![core(), sse(), linux(), segments()];
        let mut components = 3;
        if let Some(at) = component(AVX, enabled) {
            features.push(rows(
                "org.gnu.gdb.i386.avx",
                &[],
                &[("ymm{}h", 0, 16, 16, "uint128", at)],
            ));
            components |= 1 << AVX;
        }
        let wide = [MASKS, UPPER_HALVES, SECOND_HALF].map(|number| component(number, enabled));
        if let [Some(masks), Some(upper), Some(second)] = wide {
            // Of registers 16 to 31 the whole 64 bytes are in one place.
            let mut feature = rows("org.gnu.gdb.i386.avx512", &[VECTOR_TYPE, PAIR_TYPE], &[]);
            let all = &mut feature.registers;
            let whole = |number: usize, at: usize, bytes| {
                Origin::Extended(second + 64 * (number - 16) + at, bytes)
            };
            all.extend(
                (16..32).map(|n| register(format!("xmm{n}"), 16, "vec128", whole(n, 0, 16))),
            );
            all.extend(
                (16..32).map(|n| register(format!("ymm{n}h"), 16, "uint128", whole(n, 16, 16))),
            );
            all.extend((0..8).map(|n| {
                let origin = Origin::Extended(masks + 8 * n, 8);
                register(format!("k{n}"), 8, "uint64", origin)
            }));
            all.extend((0..16).map(|n| {
                let origin = Origin::Extended(upper + 32 * n, 32);
                register(format!("zmm{n}h"), 32, "v2ui128", origin)
            }));
            all.extend(
                (16..32).map(|n| register(format!("zmm{n}h"), 32, "v2ui128", whole(n, 32, 32))),
            );
            features.push(feature);
            components |= 1 << MASKS | 1 << UPPER_HALVES | 1 << SECOND_HALF;
        }
        Layout {
            features,
            components,
        }
    }

    /// The description that gdb reads.
    pub(crate) fn description(&self) -> String {
        let mut text = String::from(
            "<?xml version=\"1.0\"?><!DOCTYPE target SYSTEM \"gdb-target.dtd\">\n\
             <target><architecture>i386:x86-64</architecture><osabi>GNU/Linux</osabi>\n",
        );
        for feature in &self.features {
            let _ = writeln!(
                text,
                "<feature name=\"{}\">{}",
                feature.name,
                feature.types.concat()
            );
            for register in &feature.registers {
                let Register {
                    name, bytes, kind, ..
                } = register;
                let bits = bytes * 8;
                let _ = writeln!(
                    text,
                    "<reg name=\"{name}\" bitsize=\"{bits}\" type=\"{kind}\"/>"
                );
            }
            text.push_str("</feature>\n");
        }
        text.push_str("</target>\n");
        text
    }

    fn registers(&self) -> impl Iterator<Item = &Register> {
        self.features.iter().flat_map(|feature| &feature.registers)
    }

    /// The registers as they are sent.
    pub(crate) fn encode(&self, values: &Registers) -> Wire {
        let mut wire = Vec::new();
        for register in self.registers() {
            let end = wire.len() + register.bytes;
            match register.origin {
                Origin::Extended(at, bytes) => {
                    let part = values.extended.get(at..at + bytes);
                    wire.extend_from_slice(part.unwrap_or_default());
                }
                origin => wire.extend_from_slice(&word(values, origin).to_le_bytes()),
            }
            wire.resize(end, 0);
        }
        Wire(wire)
    }

    /// Changes registers to what was sent. Returns whether that was as long as it should be.
    pub(crate) fn decode(&self, wire: &Wire, values: &mut Registers) -> bool {
        let mut rest = &wire.0[..];
        for register in self.registers() {
            let Some((bytes, behind)) = rest.split_at_checked(register.bytes) else {
                return false;
            };
            rest = behind;
            let mut word = [0; 8];
            let length = bytes.len().min(8);
            word[..length].copy_from_slice(&bytes[..length]);
            let word = u64::from_le_bytes(word);
            match register.origin {
                Origin::General(number) => values.general[number] = word,
                Origin::Pc => values.pc = word,
                Origin::Flags => values.flags = word,
                Origin::Call => values.call = word as i64,
                Origin::Extended(at, count) => {
                    if let Some(part) = values.extended.get_mut(at..at + count) {
                        part.copy_from_slice(&bytes[..count]);
                    }
                }
                Origin::Tags => values.extended[TAGS] = short_tags(word),
                Origin::Constant(_) | Origin::FsBase | Origin::GsBase => {}
            }
        }
        let header = &mut values.extended[HEADER..HEADER + 8];
        let present = u64::from_le_bytes(header.try_into().expect("eight bytes"));
        header.copy_from_slice(&(present | self.components).to_le_bytes());
        true
    }
}

fn word(values: &Registers, origin: Origin) -> u64 {
    match origin {
        Origin::General(number) => values.general[number],
        Origin::Pc => values.pc,
        Origin::Flags => values.flags,
        Origin::Constant(value) => value,
        Origin::Tags => long_tags(&values.extended),
        Origin::FsBase => values.fs_base,
        Origin::GsBase => values.gs_base,
        Origin::Call => values.call as u64,
        Origin::Extended(..) => 0,
    }
}

/// The tag word as `fnstenv` stores it, of which XSAVE keeps only which registers are empty.
fn long_tags(extended: &[u8]) -> u64 {
    let top = usize::from(extended[STATUS + 1] >> 3 & 7);
    (0..8).fold(0, |tags, number| {
        let used = extended[TAGS] >> number & 1 != 0;
        let at = X87_REGISTERS + 16 * ((number + 8 - top) % 8);
        let value = &extended[at..at + 10];
        let exponent = u16::from_le_bytes([value[8], value[9]]) & 0x7fff;
        let zero = value[..8].iter().all(|&byte| byte == 0);
        let normal = value[7] & 0x80 != 0;
        let tag = match (used, exponent) {
            (false, _) => 3,
            (true, 0) if zero => 1,
            (true, 1..0x7fff) if normal => 0,
            (true, _) => 2,
        };
        tags | tag << (2 * number)
    })
}

fn short_tags(tags: u64) -> u8 {
    (0..8).fold(0, |short, number| {
        short | u8::from(tags >> (2 * number) & 3 != 3) << number
    })
}

fn core() -> Feature {
    const NAMES: [(&str, usize, &str); 16] = [
        ("rax", 0, "int64"),
        ("rbx", 3, "int64"),
        ("rcx", 1, "int64"),
        ("rdx", 2, "int64"),
        ("rsi", 6, "int64"),
        ("rdi", 7, "int64"),
        ("rbp", 5, "data_ptr"),
        ("rsp", 4, "data_ptr"),
        ("r8", 8, "int64"),
        ("r9", 9, "int64"),
        ("r10", 10, "int64"),
        ("r11", 11, "int64"),
        ("r12", 12, "int64"),
        ("r13", 13, "int64"),
        ("r14", 14, "int64"),
        ("r15", 15, "int64"),
    ];
    let general = NAMES.iter();
    let mut registers: Vec<_> = general
        .map(|&(name, number, kind)| register(name, 8, kind, Origin::General(number)))
        .collect();
    registers.push(register("rip", 8, "code_ptr", Origin::Pc));
    registers.push(register("eflags", 4, "i386_eflags", Origin::Flags));
    let selectors = [
        ("cs", 0x33),
        ("ss", 0x2b),
        ("ds", 0),
        ("es", 0),
        ("fs", 0),
        ("gs", 0),
    ];
    registers
        .extend(selectors.map(|(name, value)| register(name, 4, "int32", Origin::Constant(value))));
    registers.extend((0..8).map(|n| {
        let origin = Origin::Extended(X87_REGISTERS + 16 * n, 10);
        register(format!("st{n}"), 10, "i387_ext", origin)
    }));
    let control = [
        ("fctrl", Origin::Extended(0, 2)),
        ("fstat", Origin::Extended(STATUS, 2)),
        ("ftag", Origin::Tags),
        ("fiseg", Origin::Extended(12, 2)),
        ("fioff", Origin::Extended(8, 4)),
        ("foseg", Origin::Extended(20, 2)),
        ("fooff", Origin::Extended(16, 4)),
        ("fop", Origin::Extended(6, 2)),
    ];
    registers.extend(control.map(|(name, origin)| register(name, 4, "int", origin)));
    Feature {
        name: "org.gnu.gdb.i386.core",
        types: &[FLAGS_TYPE],
        registers,
    }
}

fn sse() -> Feature {
    const MXCSR: usize = 24;
    let mut feature = rows(
        "org.gnu.gdb.i386.sse",
        &[VECTOR_TYPE, MXCSR_TYPE],
        &[("xmm{}", 0, 16, 16, "vec128", XMM)],
    );
    let mxcsr = register("mxcsr", 4, "i386_mxcsr", Origin::Extended(MXCSR, 4));
    feature.registers.push(mxcsr);
    feature
}

fn linux() -> Feature {
    Feature {
        name: "org.gnu.gdb.i386.linux",
        types: &[],
        registers: vec![register("orig_rax", 8, "int", Origin::Call)],
    }
}

fn segments() -> Feature {
    Feature {
        name: "org.gnu.gdb.i386.segments",
        types: &[],
        registers: vec![
            register("fs_base", 8, "int", Origin::FsBase),
            register("gs_base", 8, "int", Origin::GsBase),
        ],
    }
}

/// Registers that lie one behind the other: pattern of their names, first number, count, bytes
/// of each, type, and where they begin.
type Row = (&'static str, usize, usize, usize, &'static str, usize);

fn rows(name: &'static str, types: &'static [&'static str], rows: &[Row]) -> Feature {
    let row = |&(pattern, first, count, bytes, kind, at): &Row| {
        (0..count).map(move |index| {
            let name = pattern.replace("{}", &(first + index).to_string());
            register(
                name,
                bytes,
                kind,
                Origin::Extended(at + bytes * index, bytes),
            )
        })
    };
    Feature {
        name,
        types,
        registers: rows.iter().flat_map(row).collect(),
    }
}
