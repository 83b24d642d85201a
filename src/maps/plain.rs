//! What can be a key or a value: fixed-size data that the program reads by offset.

/// Data with one fixed layout in bytes, in the machine's own order, shared with a BPF program.
pub trait Plain: Sized {
    /// How many bytes it takes in the map.
    const BYTES: usize;

    /// Writes it into `bytes`, which is [`BYTES`](Self::BYTES) long.
    fn write(&self, bytes: &mut [u8]);

    /// Reads it from `bytes`, which is [`BYTES`](Self::BYTES) long.
    fn read(bytes: &[u8]) -> Self;
}

macro_rules! plain_integer {
    ($($integer:ty),*) => {$(
        impl Plain for $integer {
            const BYTES: usize = size_of::<Self>();

            fn write(&self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_ne_bytes());
            }

            fn read(bytes: &[u8]) -> Self {
                let mut own = [0; size_of::<Self>()];
                own.copy_from_slice(bytes);
                Self::from_ne_bytes(own)
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
