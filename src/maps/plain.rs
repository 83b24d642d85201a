//! What can be a key or a value: fixed-size data that the program reads by offset.

use crate::insn::Endianness;

/// Data with one fixed layout in bytes, shared with a BPF program.
///
/// Programs run on this machine, so maps hold its own byte order. It is a parameter all the same, so that
/// tests can look at both on any machine.
///
/// ```
/// use rlat::insn::Endianness;
/// use rlat::maps::Plain;
///
/// assert_eq!(u32::read_in(Endianness::Big, &[0, 0, 1, 2]), 258);
/// assert_eq!(u32::read_in(Endianness::Little, &[2, 1, 0, 0]), 258);
/// ```
pub trait Plain: Sized {
    /// How many bytes it takes in the map.
    const BYTES: usize;

    /// Writes it into `bytes`, which is [`BYTES`](Self::BYTES) long, in that order.
    fn write_in(&self, order: Endianness, bytes: &mut [u8]);

    /// Reads it from `bytes`, which is [`BYTES`](Self::BYTES) long, in that order.
    fn read_in(order: Endianness, bytes: &[u8]) -> Self;

    /// The same in the machine's own order.
    fn write(&self, bytes: &mut [u8]) {
        self.write_in(Endianness::NATIVE, bytes);
    }

    /// The same in the machine's own order.
    fn read(bytes: &[u8]) -> Self {
        Self::read_in(Endianness::NATIVE, bytes)
    }
}

macro_rules! plain_integer {
    ($($integer:ty),*) => {$(
        impl Plain for $integer {
            const BYTES: usize = size_of::<Self>();

            fn write_in(&self, order: Endianness, bytes: &mut [u8]) {
                bytes.copy_from_slice(&match order {
                    Endianness::Little => self.to_le_bytes(),
                    Endianness::Big => self.to_be_bytes(),
                });
            }

            fn read_in(order: Endianness, bytes: &[u8]) -> Self {
                let mut own = [0; size_of::<Self>()];
                own.copy_from_slice(bytes);
                match order {
                    Endianness::Little => Self::from_le_bytes(own),
                    Endianness::Big => Self::from_be_bytes(own),
                }
            }
        }
    )*};
}

plain_integer!(u32, u64);

pub(super) fn to_bytes<T: Plain>(value: &T) -> Vec<u8> {
    let mut bytes = vec![0; T::BYTES];
    value.write(&mut bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_integer_comes_back_in_either_order(number: u64, big: bool) {
            let order = if big { Endianness::Big } else { Endianness::Little };
            let mut bytes = [0; 8];
            number.write_in(order, &mut bytes);
            prop_assert_eq!(u64::read_in(order, &bytes), number);
            // Where a word is read by halves, the order decides which is the low one.
            let low = if big { &bytes[4..] } else { &bytes[..4] };
            prop_assert_eq!(u32::read_in(order, low), number as u32);
        }
    }
}
