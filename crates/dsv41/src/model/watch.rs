//! Reads buffers back for an observer, and costs nothing without one.

use tokenfare_device::{Buffer, Device, Element, Result};

use super::forward::Net;
use super::plan::{CandidateRole, LayerPlan};
use crate::observer::Observer;

/// An observer, or nobody.
#[derive(Default)]
pub(super) struct Watch<'a>(Option<&'a mut dyn Observer>);

impl<'a> Watch<'a> {
    pub fn new(observer: Option<&'a mut (dyn Observer + 'static)>) -> Self {
        Self(observer.map(|o| o as &mut dyn Observer))
    }

    /// Shows what `layer` chose and left.
    pub fn layer<D: Device>(
        &mut self,
        device: &mut D,
        n: usize,
        layer: usize,
        plan: &LayerPlan,
        net: &Net<D>,
    ) -> Result<()> {
        let Some(observer) = &mut self.0 else { return Ok(()) };
        let (config, scratch) = (&net.config, &net.scratch);
        if let Some(role) = plan.compressed.and_then(|c| c.selects) {
            let top_k = config.index_top_k;
            observer.selection(layer, top_k, &read(device, &scratch.selection, n * top_k)?);
            if role == CandidateRole::Write {
                let words = scratch.mask_words;
                observer.candidates(layer, words, &read(device, &scratch.mask, n * words)?);
            }
        }
        observer.experts(layer, config.top_k, &read(device, &scratch.experts, n * config.top_k)?);
        let h = read(device, scratch.h().buf, n * scratch.h().stride)?;
        let mixes = read(device, scratch.ffn_mix().buf, n * config.mixes())?;
        let pre: Vec<f32> =
            mixes.chunks(config.mixes()).flat_map(|row| row[..config.streams].to_vec()).collect();
        observer.layer(layer, &h, &pre);
        Ok(())
    }

    /// Shows the taps of a launch.
    pub fn taps<D: Device>(&mut self, device: &mut D, n: usize, net: &Net<D>) -> Result<()> {
        if let Some(observer) = &mut self.0
            && !net.taps.is_empty()
        {
            observer.taps(net.taps_width(), &read(device, &net.taps, n * net.taps_width())?);
        }
        Ok(())
    }
}

/// The first `len` elements of a buffer.
pub(super) fn read<D: Device, T: Element>(device: &mut D, buf: &D::Buf<T>, len: usize) -> Result<Vec<T>> {
    let mut values = vec![T::default(); len];
    device.read(buf, 0, &mut values)?;
    Ok(values)
}
