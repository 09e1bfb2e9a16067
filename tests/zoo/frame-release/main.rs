//! A video pipeline around a C-style frame API: the decoder thread fills a
//! frame, the encoder thread reads it through the same raw pointer, and the
//! owner gives the pixels back when the presentation time is over.

use std::alloc::{alloc_zeroed, dealloc, Layout};
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::thread;
use std::time::Duration;

const WIDTH: usize = 96;
const HEIGHT: usize = 12;
const PADDING: usize = 32;

#[repr(C)]
struct Frame {
    width: usize,
    height: usize,
    pixels: *mut u8,
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
    Box::into_raw(Box::new(Frame { width: WIDTH, height: HEIGHT, pixels, number }))
}

/// Gives the pixels back; the header stays with its owner, to be used again.
unsafe fn frame_unref(frame: *mut Frame) {
    dealloc((*frame).pixels, layout());
    (*frame).pixels = std::ptr::null_mut(); // @pixels-clear
    (*frame).number = 0;
}

unsafe fn encode_row(frame: *mut Frame, row: usize) -> u64 {
    let width = (*frame).width;
    let pixels = (*frame).pixels; // @pixels-read
    let start = pixels.add(PADDING + row * width); // @row-start
    let mut sum = 0u64;
    for column in 0..width {
        let pixel = *start.add(column); // @fail
        sum = sum.rotate_left(5) ^ u64::from(pixel);
    }
    sum
}

fn encode(handle: FrameHandle) -> u64 {
    let frame = handle.0;
    let mut digest = 0;
    let height = unsafe { (*frame).height };
    for row in 0..height {
        wait_microseconds(0, 1000);
        digest ^= unsafe { encode_row(frame, row) }; // @encode-row
    }
    digest
}

unsafe fn print_frame(frame: *mut Frame, digest: u64) {
    let state = if (*frame).pixels.is_null() { "released" } else { "live" };
    println!("{}x{} {state}, digest {digest:016x}", (*frame).width, (*frame).height);
}

fn main() {
    let frame = unsafe { frame_alloc(41) };
    let handle = FrameHandle(frame);
    let encoder = thread::spawn(move || encode(handle)); // @start-encoder

    // The presentation time is what the frame is kept for. That the encoder
    // is done by then is hoped, not known.
    wait_microseconds(4500, 20000);
    unsafe { frame_unref(frame) }; // @unref

    let digest = encoder.join().unwrap_or(0);
    unsafe {
        print_frame(frame, digest);
        drop(Box::from_raw(frame));
    }
}
