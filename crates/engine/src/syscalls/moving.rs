//! Mappings that move, or show another place of their file.

use unspool_kernel::regions::View;

use super::memory::{changed, gone, kernel, meets_engine, unmapped};
use super::pages::{PAGE, whole_pages};
use crate::call::{Call, succeeded};
use crate::code_pages;
use crate::process::Process;

/// `mremap`.
pub(super) fn remap(process: &Process, call: &Call) -> i64 {
    let [old, old_size, new_size, flags, new, _] = call.arguments;
    let fixed = flags & libc::MREMAP_FIXED as u64 != 0;
    if meets_engine(&whole_pages(old, old_size))
        || fixed && meets_engine(&whole_pages(new, new_size))
    {
        return -i64::from(libc::EFAULT);
    }
    let mut code = process.code();
    code.lending.keeps();
    let known = code.regions.find(old);
    code_pages::release(&mut code, whole_pages(old, old_size.max(1)));
    let result = kernel(process, libc::SYS_mremap, call.arguments);
    if succeeded(result) {
        let keep_old = flags & libc::MREMAP_DONTUNMAP as u64 != 0 || old_size == 0;
        if !keep_old {
            gone(&mut code, whole_pages(old, old_size));
        } else if old_size != 0 {
            // It is still mapped, but nothing is there.
            code_pages::contents_changed(&mut code, whole_pages(old, old_size));
        }
        let range = whole_pages(result as u64, new_size);
        unmapped(&mut code, range.clone());
        if let Some((start, region)) = known {
            let view = region.view.map(|view| View {
                offset: view.offset + (old - start),
                ..view
            });
            code.regions.insert(range.clone(), region.protection, view);
            if region.grows {
                code.regions.set_growing(range.start);
            }
            changed(&mut code, range);
        }
    }
    result
}

/// `remap_file_pages`: a shared mapping shows another place of its file.
pub(super) fn remap_file(process: &Process, call: &Call) -> i64 {
    let [address, size, _, page, ..] = call.arguments;
    let range = whole_pages(address, size);
    if meets_engine(&range) {
        return -i64::from(libc::EINVAL);
    }
    let mut code = process.code();
    code_pages::release(&mut code, range.clone());
    let result = kernel(process, libc::SYS_remap_file_pages, call.arguments);
    if succeeded(result)
        && let Some((_, region)) = code.regions.find(range.start)
    {
        unmapped(&mut code, range.clone());
        let offset = page.saturating_mul(PAGE);
        let view = region.view.map(|view| View { offset, ..view });
        code.regions.insert(range.clone(), region.protection, view);
        changed(&mut code, range);
    }
    result
}
