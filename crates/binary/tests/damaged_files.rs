//! Files that are no modules, or broken ones: an error or problems, never a panic.

use std::path::Path;

use tempfile::TempDir;
use unspool_binary::{FileAddress, FunctionNames, Module, ModuleError, SymbolTables};

fn read(bytes: Vec<u8>) -> Result<Module, ModuleError> {
    Module::from_bytes(Path::new("damaged"), bytes)
}

/// Asks a module everything that could go wrong.
fn use_module(module: &Module) {
    for function in module.functions().take(50) {
        assert!(function.end() >= function.address());
        let _ = function.name();
        let _ = module.offset_of(function.address());
    }
    for address in [0, 1, 0x1000, u64::MAX] {
        let _ = module.function_at(FileAddress(address));
    }
    let _ = (module.span(), module.build_id());
    let _ = module.functions_named(&FunctionNames::new(["main"]));
}

/// Looks for functions in the symbols of a file, which is read piece by piece.
fn use_symbols(folder: &TempDir, bytes: &[u8]) {
    let path = folder.path().join("damaged");
    std::fs::write(&path, bytes).expect("a small file can be written");
    let Ok(tables) = SymbolTables::open(&path) else {
        return;
    };
    for name in ["ns_parserr", "inet_net_ntop", "main", "no_such_name"] {
        for range in tables.find(&FunctionNames::new([name])).unwrap_or_default() {
            assert!(range.start <= range.end, "{name}: {range:?}");
        }
    }
}

fn small_library() -> Option<Vec<u8>> {
    let paths = [
        "/lib/x86_64-linux-gnu/libresolv.so.2",
        "/usr/bin/true",
        "/bin/true",
    ];
    let bytes = paths.iter().find_map(|path| std::fs::read(path).ok());
    if bytes.is_none() {
        eprintln!("skipped: none of {paths:?} is here");
    }
    bytes
}

#[test]
fn other_files_are_refused_by_name() {
    for bytes in [&b""[..], b"\x7fELF", b"text", &[0; 64], &[0x7f; 4096]] {
        let error = read(bytes.to_vec()).expect_err("no module");
        assert!(matches!(error, ModuleError::NotElf { .. }), "{error}");
        assert!(error.to_string().starts_with("damaged: "), "{error}");
    }
    let missing = Module::open(Path::new("/no/such/file")).expect_err("no file");
    assert!(matches!(missing, ModuleError::Open { .. }));
    let Some(mut bytes) = small_library() else {
        return;
    };
    bytes[18] = 183;
    assert!(matches!(read(bytes), Err(ModuleError::OtherMachine { .. })));
}

#[test]
fn a_cut_file_gives_what_is_left() {
    let Some(bytes) = small_library() else { return };
    let folder = TempDir::new().expect("a folder");
    for length in (64..bytes.len()).step_by(97) {
        use_symbols(&folder, &bytes[..length]);
        if let Ok(module) = read(bytes[..length].to_vec()) {
            assert!(
                !module.problems().is_empty(),
                "{length} bytes of {}",
                bytes.len()
            );
            use_module(&module);
        }
    }
}

#[test]
fn changed_bytes_never_panic() {
    let Some(bytes) = small_library() else { return };
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = |limit: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random % limit as u64) as usize
    };
    let section_headers = u64::from_le_bytes(bytes[40..48].try_into().expect("8 bytes")) as usize;
    let folder = TempDir::new().expect("a folder");
    let mut usable = 0;
    for _ in 0..3000 {
        let mut changed = bytes.clone();
        for _ in 0..=next(4) {
            // The headers are where damage matters most.
            let position = match next(3) {
                0 => next(64 + 56 * 13),
                1 => section_headers.saturating_add(next(64 * 30)),
                _ => next(changed.len()),
            };
            let value = [0, 0xff, 0x7f, 0x80, next(256) as u8][next(5)];
            if let Some(byte) = changed.get_mut(position) {
                *byte = value;
            }
        }
        use_symbols(&folder, &changed);
        if let Ok(module) = read(changed) {
            usable += 1;
            use_module(&module);
        }
    }
    assert!(usable > 1000, "only {usable} files were usable");
}
