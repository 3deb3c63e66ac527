//! Names for addresses.

use std::collections::HashMap;
use std::path::PathBuf;

use unspool_binary::{LoadBias, Module, RuntimeAddress};

use crate::mapped;

/// The functions of the images that are loaded, by their addresses: to name a
/// [`call_path`](crate::call_path()). Files are read when they are needed, and kept.
#[derive(Debug, Default)]
pub struct Functions {
    modules: HashMap<PathBuf, Option<Module>>,
}

impl Functions {
    /// Nothing read yet.
    #[must_use]
    pub fn new() -> Functions {
        Functions::default()
    }

    /// The function that an address is in, as the source has its name. None where no symbol tells, or
    /// where the probe does not say [`Probe::CALL_PATHS`](crate::Probe::CALL_PATHS).
    pub fn name_at(&mut self, address: u64) -> Option<String> {
        let (path, bias) = mapped::with(|mapped| {
            let (image, _) = mapped.image_at(address)?;
            Some((image.path.clone(), LoadBias(image.bias)))
        })??;
        let module = self.modules.entry(path).or_insert_with_key(|path| {
            let path = match path.as_os_str().is_empty() {
                true => PathBuf::from("/proc/self/exe").read_link().ok()?,
                false => path.clone(),
            };
            Module::open(&path).ok()
        });
        let address = RuntimeAddress(address).in_file(bias);
        let (function, _) = module.as_ref()?.function_at(address)?;
        Some(function.name())
    }
}
