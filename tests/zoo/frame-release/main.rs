//! A video pipeline around a C-style frame API: the main thread allocates and
//! fills a frame, the encoder thread reads it through the same raw pointer, and
//! the pixels are given back when the presentation time is over.

use std::alloc::{alloc_zeroed, dealloc, Layout};
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::thread;
use std::time::Duration;

const WIDTH: usize = 96;
const HEIGHT: usize = 4;
const PADDING: usize = 32;

#[repr(C)]
struct Frame {
    pixels: *mut u8,
    width: usize,
    height: usize,
    number: u64,
}

/// The pointer as it crosses threads; C would not even ask.
#[derive(Clone, Copy)]
struct FrameHandle(*mut Frame);
unsafe impl Send for FrameHandle {}

/// A random time between two bounds, standing for devices.
fn wait_microseconds(least: u64, most: u64) {
    let random = RandomState::new().build_hasher().finish();
    thread::sleep(Duration::from_micros(least + random % (most - least + 1)));
}

fn layout() -> Layout {
    Layout::array::<u8>(PADDING + WIDTH * HEIGHT).unwrap()
}

unsafe fn frame_alloc(number: u64) -> *mut Frame {
    let pixels = alloc_zeroed(layout());
    for i in 0..WIDTH * HEIGHT {
        *pixels.add(PADDING + i) = (i as u64 * (number + 7)) as u8;
    }
    Box::into_raw(Box::new(Frame { // @init
        pixels,
        width: WIDTH,
        height: HEIGHT,
        number,
    }))
}

/// Gives the pixels back; the header stays with its owner, to be used again.
unsafe fn frame_unref(frame: *mut Frame) {
    dealloc((*frame).pixels, layout());
    (*frame).pixels = std::ptr::null_mut(); // @pixels-clear
    (*frame).number = 0;
}

/// The row's first pixel, then the differences from one to the next.
unsafe fn encode_row(frame: *mut Frame, row: usize) -> u64 {
    let width = (*frame).width;
    let start = PADDING + row * width;
    let pixels = (*frame).pixels; // @pixels-read
    let mut previous = *pixels.add(start); // @fail
    let mut sum = u64::from(previous);
    for column in 1..width {
        let pixel = *pixels.add(start + column);
        sum = sum.rotate_left(5) ^ u64::from(pixel.wrapping_sub(previous));
        previous = pixel;
    }
    sum
}

fn encode(handle: FrameHandle) -> u64 {
    let frame = handle.0;
    let mut digest = 0;
    let height = unsafe { (*frame).height };
    for row in 0..height {
        wait_microseconds(0, 4000);
        digest ^= unsafe { encode_row(frame, row) }; // @encode-row
    }
    digest
}

unsafe fn print_frame(frame: *mut Frame, digest: u64) {
    let state = if (*frame).pixels.is_null() {
        "released"
    } else {
        "live"
    };
    println!(
        "{}x{} {state}, digest {digest:016x}",
        (*frame).width,
        (*frame).height
    );
}

fn main() {
    let frame = unsafe { frame_alloc(41) }; // @alloc
    let handle = FrameHandle(frame);
    let encoder = thread::spawn(move || encode(handle)); // @start-encoder

    // The presentation time is what the frame is kept for. That the encoder
    // is done by then is hoped, not known.
    wait_microseconds(5000, 50000);
    unsafe { frame_unref(frame) }; // @unref

    let digest = encoder.join().unwrap_or(0);
    unsafe {
        print_frame(frame, digest);
        drop(Box::from_raw(frame));
    }
}
