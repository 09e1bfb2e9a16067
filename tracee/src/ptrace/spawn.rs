//! The way from fork to exec, with us tracing the child before it executes anything of the new program.

use std::ffi::{CStr, CString};
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::path::Path;
use std::ptr;

use super::alarm;
use super::error::{AttachError, LaunchError, TraceError};
use super::inherited;
use super::launch::{Launch, Pipes, Stream, c_path};
use super::request;
use super::stop::{Event, Waited};
use crate::ids::Pid;

/// What the child could not do, as it tells us.
const CHANGE_FOLDER: u8 = 1;
const EXECUTE: u8 = 2;
const PREPARE: u8 = 3;

/// Everything that the child needs, made before the fork: between fork and exec it may not allocate.
struct Prepared {
    path: CString,
    argv: Vec<*const libc::c_char>,
    envp: Vec<*const libc::c_char>,
    folder: Option<CString>,
    /// What becomes descriptor 0, 1 and 2.
    streams: [Option<RawFd>; 3],
    own_group: bool,
    mask: libc::sigset_t,
    /// A byte comes from here when the child is traced.
    go: RawFd,
    /// The parent's end of it, which the child must not keep open.
    go_other: RawFd,
    /// Where the child says what went wrong.
    trouble: RawFd,
}

/// Starts the program and traces it; it is stopped before its first instruction.
pub(super) fn spawn(launch: Launch, options: i32, mask: &libc::sigset_t) -> Result<(Pid, Pipes), TraceError> {
    let path = launch.path()?;
    let (argv, envp) = (launch.argv()?, launch.envp()?);
    let folder = launch.folder.as_deref().map(c_path).transpose()?;
    let folder_path = launch.folder.clone();
    let refused = |source| LaunchError::Refused {
        path: path.clone(),
        source,
    };
    let (pipes, theirs) = open_streams(launch.streams).map_err(refused)?;
    let (go, mut go_write) = pipe().map_err(refused)?;
    let (mut trouble_read, trouble) = pipe().map_err(refused)?;
    let prepared = Prepared {
        path: c_path(&path)?,
        argv: pointers(&argv),
        envp: pointers(&envp),
        folder,
        streams: [0, 1, 2].map(|index: usize| theirs.get(index)?.as_ref().map(|file| file.as_raw_fd())),
        own_group: launch.own_group,
        mask: *mask,
        go: go.as_raw_fd(),
        go_other: go_write.as_raw_fd(),
        trouble: trouble.as_raw_fd(),
    };
    // SAFETY: the child does nothing but `child`, which only makes calls that are allowed after a fork of a
    // process with several threads.
    let forked = unsafe { libc::fork() };
    if forked == 0 {
        child(&prepared);
    }
    let pid = match u32::try_from(forked) {
        Ok(pid) => Pid(pid),
        Err(_) => return Err(refused(io::Error::last_os_error()).into()),
    };
    drop((go, trouble, theirs));
    if let Err(source) = request::seize(pid.first_thread(), options) {
        drop(go_write);
        let _ = alarm::wait_for(pid.first_thread());
        return Err(AttachError::why(pid, source).into());
    }
    // A child that is gone already has said why.
    let _ = go_write.write_all(&[1]);
    drop(go_write);
    if wait_for_exec(pid)? {
        return Ok((pid, pipes));
    }
    let mut said = [0; 5];
    let Ok(()) = trouble_read.read_exact(&mut said) else {
        return Err(LaunchError::Ended(path).into());
    };
    let [step, error @ ..] = said;
    let source = io::Error::from_raw_os_error(i32::from_ne_bytes(error));
    Err(why(step, &path, folder_path.as_deref(), source).into())
}

fn why(step: u8, path: &Path, folder: Option<&Path>, source: io::Error) -> LaunchError {
    let path = path.to_owned();
    match (step, source.raw_os_error()) {
        (CHANGE_FOLDER, _) => LaunchError::Folder {
            path: folder.map(Path::to_owned).unwrap_or_default(),
            source,
        },
        (EXECUTE, Some(libc::ENOENT)) => {
            let there = folder
                .map_or_else(|| path.clone(), |folder| folder.join(&path))
                .exists();
            if there {
                LaunchError::NoInterpreter(path)
            } else {
                LaunchError::NotFound(path)
            }
        }
        (EXECUTE, Some(libc::ENOTDIR)) => LaunchError::NotFound(path),
        (EXECUTE, Some(libc::EACCES)) => LaunchError::NotExecutable(path),
        (EXECUTE, Some(libc::ENOEXEC)) => LaunchError::BadFormat(path),
        _ => LaunchError::Refused { path, source },
    }
}

/// Waits until the child executes the program; false if it ended before that.
fn wait_for_exec(pid: Pid) -> Result<bool, TraceError> {
    let tid = pid.first_thread();
    loop {
        let waited = alarm::wait_for(tid).map_err(TraceError::refused("wait for the program's start"))?;
        let Some(waited) = waited else {
            return Ok(false);
        };
        let _gone_is_told_by_the_next_wait = match waited {
            Waited::Ended(_) => return Ok(false),
            Waited::Event(Event::Exec) => return Ok(true),
            Waited::Signal(signal) => request::cont(tid, signal),
            Waited::GroupStop(_) => request::listen(tid),
            Waited::Event(_) | Waited::Trap => request::cont(tid, 0),
        };
    }
}

/// The child's way to the new program. It may only make calls that are safe after a fork.
fn child(prepared: &Prepared) -> ! {
    let step = prepare(prepared).err().unwrap_or_else(|| {
        // SAFETY: path, arguments and environment are lists of C strings that end with a null pointer.
        unsafe {
            libc::execve(
                prepared.path.as_ptr(),
                prepared.argv.as_ptr(),
                prepared.envp.as_ptr(),
            )
        };
        EXECUTE
    });
    // SAFETY: errno is this thread's own; the message is five bytes long; _exit runs nothing of the parent's.
    unsafe {
        let [a, b, c, d] = (*libc::__errno_location()).to_ne_bytes();
        let said = [step, a, b, c, d];
        libc::write(prepared.trouble, said.as_ptr().cast(), said.len());
        libc::_exit(127)
    }
}

fn prepare(prepared: &Prepared) -> Result<(), u8> {
    let mut byte = 0_u8;
    // SAFETY: numbers, C strings and structures that live as long as the calls; all of them are on the list of
    // calls that are safe after a fork.
    unsafe {
        libc::close(prepared.go_other);
        let told = loop {
            let count = libc::read(prepared.go, (&raw mut byte).cast(), 1);
            if count >= 0 || *libc::__errno_location() != libc::EINTR {
                break count;
            }
        };
        if told != 1 {
            libc::_exit(127);
        }
        if prepared.own_group && libc::setpgid(0, 0) != 0 {
            return Err(PREPARE);
        }
        for (target, stream) in (0..).zip(prepared.streams) {
            if stream.is_some_and(|stream| libc::dup2(stream, target) < 0) {
                return Err(PREPARE);
            }
        }
        if prepared
            .folder
            .as_deref()
            .map(CStr::as_ptr)
            .is_some_and(|path| libc::chdir(path) != 0)
        {
            return Err(CHANGE_FOLDER);
        }
        inherited::restore();
        libc::sigprocmask(libc::SIG_SETMASK, &raw const prepared.mask, ptr::null_mut());
    }
    Ok(())
}

fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    strings
        .iter()
        .map(|text| text.as_ptr())
        .chain([ptr::null()])
        .collect()
}

/// Both ends of a pipe, closed on exec; none of them is a standard stream.
fn pipe() -> io::Result<(File, File)> {
    let mut ends = [0; 2];
    // SAFETY: the kernel writes two ints, and there is room for them.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call above made both, and nobody else has them.
    let [read, write] = ends.map(|end| unsafe { OwnedFd::from_raw_fd(end) });
    Ok((read.into(), write.into()))
}

fn open_streams(streams: [Stream; 3]) -> io::Result<(Pipes, [Option<File>; 3])> {
    let mut pipes = Pipes::default();
    let mut theirs = [None, None, None];
    for ((index, stream), their) in streams.into_iter().enumerate().zip(&mut theirs) {
        *their = match stream {
            Stream::Inherit => None,
            Stream::Null => Some(OpenOptions::new().read(true).write(true).open("/dev/null")?),
            Stream::File(file) => Some(file),
            Stream::Pipe => {
                let (read, write) = pipe()?;
                let (ours, their, end) = match index {
                    0 => (write, read, &mut pipes.stdin),
                    1 => (read, write, &mut pipes.stdout),
                    _ => (read, write, &mut pipes.stderr),
                };
                *end = Some(ours);
                Some(their)
            }
        };
    }
    Ok((pipes, theirs))
}
