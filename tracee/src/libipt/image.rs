//! The traced code, as libipt decodes it fastest.
//!
//! libipt keeps what it learnt of code only for sections of files, and only while a section is mapped. So the code
//! goes into one file in memory, neighbours are one section, and a section cache keeps every section mapped.

use std::ffi::CString;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd};
use std::ptr::{self, NonNull};

use libipt_sys as sys;

use super::fault::{Fault, SetupError};

/// Code in a file, and at which addresses its parts are.
#[derive(Debug)]
pub struct CodeFile {
    file: File,
    sections: Vec<Section>,
}

impl CodeFile {
    /// Code in pieces, each at its address. Where pieces overlap, the later one counts.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub fn new<'a>(pieces: impl IntoIterator<Item = (u64, &'a [u8])>) -> Result<Self, SetupError> {
        let mut file = memory_file()?;
        let sections = write_sections(&mut file, pieces)?;
        Ok(Self { file, sections })
    }
}

/// Code at addresses.
#[derive(Debug)]
pub struct Image<'a> {
    image: NonNull<sys::pt_image>,
    cache: NonNull<sys::pt_image_section_cache>,
    // libipt opens the file again whenever it maps a section.
    code: &'a CodeFile,
}

impl<'a> Image<'a> {
    /// The code of a file.
    ///
    /// # Errors
    /// When libipt has no memory or refuses a section.
    pub fn new(code: &'a CodeFile) -> Result<Self, SetupError> {
        // SAFETY: a name is optional.
        let image = unsafe { sys::pt_image_alloc(ptr::null()) };
        let image = NonNull::new(image).ok_or(SetupError::NoMemory("an image"))?;
        // SAFETY: a name is optional.
        let cache = unsafe { sys::pt_iscache_alloc(ptr::null()) };
        let Some(cache) = NonNull::new(cache) else {
            // SAFETY: allocated above, known to nobody else.
            unsafe { sys::pt_image_free(image.as_ptr()) };
            return Err(SetupError::NoMemory("a section cache"));
        };
        let this = Self { image, cache, code };
        this.add()?;
        Ok(this)
    }

    fn add(&self) -> Result<(), SetupError> {
        let path = format!("/proc/self/fd/{}", self.code.file.as_raw_fd());
        let path = CString::new(path).unwrap_or_default();
        // SAFETY: the cache is ours.
        refused("the limit of its cache", unsafe {
            sys::pt_iscache_set_limit(self.cache.as_ptr(), u64::MAX)
        })?;
        for section in &self.code.sections {
            // SAFETY: the cache is ours, the path is a C string that lives through the call.
            let id = refused("a section of code", unsafe {
                sys::pt_iscache_add_file(
                    self.cache.as_ptr(),
                    path.as_ptr(),
                    section.offset,
                    section.size,
                    section.address,
                )
            })?;
            // SAFETY: image and cache are ours, the address space is optional.
            refused("a section of code", unsafe {
                sys::pt_image_add_cached(self.image.as_ptr(), self.cache.as_ptr(), id, ptr::null())
            })?;
        }
        Ok(())
    }

    pub(super) fn raw(&self) -> *mut sys::pt_image {
        self.image.as_ptr()
    }
}

impl Drop for Image<'_> {
    fn drop(&mut self) {
        // SAFETY: both were allocated by `new`; decoders borrow the image and are gone. The image refers to the
        // cache's sections and goes first.
        unsafe {
            sys::pt_image_free(self.image.as_ptr());
            sys::pt_iscache_free(self.cache.as_ptr());
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Section {
    address: u64,
    offset: u64,
    size: u64,
}

fn write_sections<'a>(
    file: &mut File,
    pieces: impl IntoIterator<Item = (u64, &'a [u8])>,
) -> Result<Vec<Section>, SetupError> {
    let mut sections: Vec<Section> = Vec::new();
    let mut offset = 0;
    for (address, bytes) in pieces {
        if bytes.is_empty() {
            continue;
        }
        file.write_all(bytes)?;
        let size = bytes.len() as u64;
        match sections.last_mut() {
            Some(last) if last.address.checked_add(last.size) == Some(address) => last.size += size,
            _ => sections.push(Section {
                address,
                offset,
                size,
            }),
        }
        offset += size;
    }
    Ok(sections)
}

fn memory_file() -> Result<File, SetupError> {
    // SAFETY: the name is a C string; the result is a new descriptor that nobody else owns.
    unsafe {
        let descriptor = libc::memfd_create(c"traced code".as_ptr(), libc::MFD_CLOEXEC);
        if descriptor < 0 {
            return Err(std::io::Error::last_os_error().into());
        }
        Ok(File::from_raw_fd(descriptor))
    }
}

fn refused(what: &'static str, code: i32) -> Result<i32, SetupError> {
    if code < 0 {
        let fault = Fault::of(code);
        Err(SetupError::Refused { what, fault })
    } else {
        Ok(code)
    }
}
