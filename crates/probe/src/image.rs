//! Images and their functions, as a probe sees them.

use std::ops::Range;
use std::path::Path;

use unspool_binary::Module;

use crate::counter::Counter;
use crate::function::{Replacement, Signature, Wrapper};
use crate::loaded_image::LoadedImage;
use crate::passage::EntryPoint;
use crate::patch::Patch;

/// A file whose code the dynamic loader has mapped: the program, or a library.
#[derive(Debug)]
pub struct Image<'a, P: 'static> {
    inner: &'a LoadedImage,
    probe: &'static P,
}

impl<'a, P: 'static> Image<'a, P> {
    pub(crate) fn new(inner: &'a LoadedImage, probe: &'static P) -> Image<'a, P> {
        Image { inner, probe }
    }

    /// Its file.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.inner.path()
    }

    /// The addresses from its first segment to the end of its last.
    #[must_use]
    pub fn range(&self) -> Range<u64> {
        self.inner.range()
    }

    /// What its file says; none if it cannot be read. Its addresses are the file's.
    #[must_use]
    pub fn module(&self) -> Option<&Module> {
        self.inner.module()
    }

    /// Puts a function of the probe in the place of all functions of a name: a symbol, or a name
    /// as the source has it, with or without the types of its arguments. It is called whenever
    /// they are, and what it returns is returned. Returns how many there are.
    ///
    /// What the probe's function calls is not replaced: it gets the program's own.
    ///
    /// The types are those of the program's function, and the probe's must fit them:
    ///
    /// ```
    /// # use unspool_probe::{Image, Probe};
    /// type Close = extern "C" fn(i32) -> i32;
    ///
    /// struct NeverClose;
    ///
    /// impl NeverClose {
    ///     fn close(&self, file: i32) -> i32 {
    ///         0
    ///     }
    /// }
    ///
    /// impl Probe for NeverClose {
    ///     fn image_load(&self, image: &Image<Self>) {
    ///         image.replace::<Close>("close", NeverClose::close);
    ///     }
    /// }
    /// ```
    ///
    /// With other types they do not:
    ///
    /// ```compile_fail,E0631
    /// # use unspool_probe::{Image, Probe};
    /// type Close = extern "C" fn(i64) -> i32;
    /// # struct NeverClose;
    /// # impl NeverClose {
    /// #     fn close(&self, file: i32) -> i32 {
    /// #         0
    /// #     }
    /// # }
    /// # impl Probe for NeverClose {
    /// #     fn image_load(&self, image: &Image<Self>) {
    ///         image.replace::<Close>("close", NeverClose::close);
    /// #     }
    /// # }
    /// ```
    pub fn replace<S: Signature>(&self, name: &str, function: impl Replacement<P, S>) -> usize {
        self.inner
            .hook_named(name, &entry_of_replacement(function), self.probe)
    }

    /// Puts a function of the probe around all functions of a name: it is called whenever they
    /// are, can call the original, and what it returns is returned. Returns how many there are.
    ///
    /// ```
    /// # use unspool_probe::{Address, Counter, Image, Original, Probe};
    /// type Malloc = extern "C" fn(usize) -> Address;
    ///
    /// struct MallocBytes(Counter);
    ///
    /// impl MallocBytes {
    ///     fn malloc(&self, original: &mut Original<Malloc>, size: usize) -> Address {
    ///         self.0.add(size as u64);
    ///         original.call(size)
    ///     }
    /// }
    ///
    /// impl Probe for MallocBytes {
    ///     fn image_load(&self, image: &Image<Self>) {
    ///         image.wrap::<Malloc>("malloc", MallocBytes::malloc);
    ///     }
    /// }
    /// ```
    ///
    /// What the wrapper calls itself is not wrapped; what the original calls is. `errno` is what
    /// the original left. If the original is left by an exception, the wrapper's values are
    /// dropped and it does not go on; if by `longjmp`, it does not go on, and they are not.
    pub fn wrap<S: Signature>(&self, name: &str, function: impl Wrapper<P, S>) -> usize {
        self.inner
            .hook_named(name, &entry_of_wrapper(function), self.probe)
    }

    /// Counts the calls of all functions of a name, whatever their types, without calling
    /// anything. Returns how many there are.
    pub fn count(&self, name: &str, counter: &'static Counter) -> usize {
        let count = |patch: &mut Patch<'_>, range: &Range<u64>| {
            patch.count(range.start, range.end, counter)
        };
        self.inner.change_named(name, count)
    }
}

fn entry_of_replacement<P: 'static, S: Signature, F: Replacement<P, S>>(_: F) -> EntryPoint {
    F::replacement()
}

fn entry_of_wrapper<P: 'static, S: Signature, F: Wrapper<P, S>>(_: F) -> EntryPoint {
    F::wrapper()
}
