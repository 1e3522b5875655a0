//! Packed tensors become [`Weights`], named as in the checkpoint.

use tokenfare_device::{Device, DeviceError};

use super::pack::{Packed, Parts};
use super::{Drafts, LoadError};
use crate::checkpoint::Checkpoint;
use crate::checkpoint::inventory::Kind;
use crate::weights::{Block, Compressor, Drafter, Engram, Ffn, HyperConnection, Indexer, Weights};

/// Why a part is always there: the parts and the names below come from one inventory.
const LISTED: &str = "the inventory lists every weight of the model in its form";

pub(super) struct Assembly<'a, D: Device> {
    checkpoint: &'a Checkpoint,
    device: &'a mut D,
    parts: Parts<D>,
}

impl<'a, D: Device> Assembly<'a, D> {
    pub(super) fn new(checkpoint: &'a Checkpoint, device: &'a mut D, parts: Parts<D>) -> Self {
        Self { checkpoint, device, parts }
    }

    pub(super) fn weights(mut self, drafter: Drafts) -> Result<Weights<D>, LoadError> {
        let layers = self.checkpoint.config().layers;
        Ok(Weights {
            embed: self.table("embed"),
            layers: (0..layers)
                .map(|layer| self.block(&format!("layers.{layer}"), Kind::Backbone(layer)))
                .collect::<Result<_, _>>()?,
            norm: self.vector("norm")?,
            head: self.linear("head"),
            drafter: if drafter == Drafts::Load { self.drafter()? } else { None },
        })
    }

    fn drafter(&mut self) -> Result<Option<Drafter<D>>, LoadError> {
        let Some(config) = &self.checkpoint.config().drafter else { return Ok(None) };
        let (blocks, kind) = (config.blocks, Kind::Drafter(config.experts));
        let last = format!("mtp.{}", blocks - 1);
        Ok(Some(Drafter {
            main_proj: self.linear("mtp.0.main_proj"),
            main_norm: self.vector("mtp.0.main_norm")?,
            blocks: (0..blocks).map(|b| self.block(&format!("mtp.{b}"), kind)).collect::<Result<_, _>>()?,
            norm: self.vector(&format!("{last}.norm"))?,
            markov_embed: self.table(&format!("{last}.markov_head.embed")),
            markov_head: self.linear(&format!("{last}.markov_head.head")),
            confidence: self.linear(&format!("{last}.confidence_head.proj")),
        }))
    }

    fn block(&mut self, at: &str, kind: Kind) -> Result<Block<D>, LoadError> {
        let (compressor, indexer, engram, experts) = match kind {
            Kind::Backbone(layer) => (
                self.compressor(at, layer)?,
                self.indexer(at, layer)?,
                self.engram(at, layer)?,
                self.checkpoint.config().experts,
            ),
            Kind::Drafter(experts) => (None, None, None, experts),
        };
        Ok(Block {
            wq_a: self.linear(&format!("{at}.attn.wq_a")),
            q_norm: self.vector(&format!("{at}.attn.q_norm"))?,
            wq_b: self.linear(&format!("{at}.attn.wq_b")),
            wkv: self.linear(&format!("{at}.attn.wkv")),
            kv_norm: self.vector(&format!("{at}.attn.kv_norm"))?,
            sink: self.vector(&format!("{at}.attn.attn_sink"))?,
            wo_a: self.linear(&format!("{at}.attn.wo_a")),
            wo_b: self.linear(&format!("{at}.attn.wo_b")),
            attn_norm: self.vector(&format!("{at}.attn_norm"))?,
            ffn_norm: self.vector(&format!("{at}.ffn_norm"))?,
            hc_attn: self.hyper_connection(&format!("{at}.hc_attn"))?,
            hc_ffn: self.hyper_connection(&format!("{at}.hc_ffn"))?,
            compressor,
            indexer,
            engram,
            ffn: self.ffn(&format!("{at}.ffn"), experts)?,
        })
    }

    fn hyper_connection(&mut self, at: &str) -> Result<HyperConnection<D>, LoadError> {
        Ok(HyperConnection {
            mix: self.linear(&format!("{at}_fn")),
            base: self.vector(&format!("{at}_base"))?,
            scale: self.vector(&format!("{at}_scale"))?,
        })
    }

    fn compressor(&mut self, at: &str, layer: usize) -> Result<Option<Compressor<D>>, LoadError> {
        let config = self.checkpoint.config();
        if !config.kv_sources.contains(&layer) {
            return Ok(None);
        }
        let gated = config.ratios[layer] > 1;
        Ok(Some(Compressor {
            wkv: self.linear(&format!("{at}.attn.compressor.wkv")),
            wgate: gated.then(|| self.linear(&format!("{at}.attn.compressor.wgate"))),
            norm: self.vector(&format!("{at}.attn.compressor.norm"))?,
        }))
    }

    fn indexer(&mut self, at: &str, layer: usize) -> Result<Option<Indexer<D>>, LoadError> {
        let config = self.checkpoint.config();
        if !config.index_sources.contains(&layer) {
            return Ok(None);
        }
        let key = if config.kv_sources.contains(&layer) {
            let wk = self.linear(&format!("{at}.attn.indexer.wk"));
            Some((wk, self.vector(&format!("{at}.attn.indexer.k_norm"))?))
        } else {
            None
        };
        Ok(Some(Indexer {
            wq_b: self.linear(&format!("{at}.attn.indexer.wq_b")),
            weights_proj: self.linear(&format!("{at}.attn.indexer.weights_proj")),
            key,
        }))
    }

    fn engram(&mut self, at: &str, layer: usize) -> Result<Option<Engram<D>>, LoadError> {
        let config = self.checkpoint.config();
        if !config.engram.as_ref().is_some_and(|e| e.layers.contains(&layer)) {
            return Ok(None);
        }
        let q = self.values(&format!("{at}.engram.q_weight"));
        let k = self.values(&format!("{at}.engram.k_weight"));
        let qk: Vec<f32> = q.iter().zip(&k).map(|(q, k)| q * k).collect();
        Ok(Some(Engram {
            table: self.checkpoint.engram_table(layer)?,
            wkv: self.linear(&format!("{at}.engram.wkv")),
            qk: self.buffer(&format!("{at}.engram.q_weight"), &qk)?,
        }))
    }

    fn ffn(&mut self, at: &str, experts: usize) -> Result<Ffn<D>, LoadError> {
        let mut triple = |expert: String| ["w1", "w3", "w2"].map(|w| self.linear(&format!("{expert}.{w}")));
        let routed = (0..experts).map(|e| triple(format!("{at}.experts.{e}"))).collect();
        let shared = triple(format!("{at}.shared_experts"));
        let routed = self.device.experts(routed);
        Ok(Ffn {
            gate: self.linear(&format!("{at}.gate")),
            bias: self.vector(&format!("{at}.gate.bias"))?,
            routed: routed.map_err(|cause| self.refused(&format!("{at}.experts"), cause))?,
            shared,
        })
    }

    fn linear(&mut self, key: &str) -> D::Linear {
        match self.parts.remove(key) {
            Some(Packed::Linear(linear)) => Some(linear),
            _ => None,
        }
        .expect(LISTED)
    }

    fn table(&mut self, key: &str) -> D::Table {
        match self.parts.remove(key) {
            Some(Packed::Table(table)) => Some(table),
            _ => None,
        }
        .expect(LISTED)
    }

    fn values(&mut self, key: &str) -> Vec<f32> {
        match self.parts.remove(key) {
            Some(Packed::Vector(values)) => Some(values),
            _ => None,
        }
        .expect(LISTED)
    }

    fn vector(&mut self, key: &str) -> Result<D::Buf<f32>, LoadError> {
        let values = self.values(key);
        self.buffer(key, &values)
    }

    fn buffer(&mut self, key: &str, values: &[f32]) -> Result<D::Buf<f32>, LoadError> {
        let buffer = self.device.alloc(values.len()).map_err(|cause| self.refused(key, cause))?;
        self.device.write(&buffer, 0, values).map_err(|cause| self.refused(key, cause))?;
        Ok(buffer)
    }

    fn refused(&self, key: &str, cause: DeviceError) -> LoadError {
        let weight = format!("{key}.weight");
        let stored = [key.to_owned(), weight].into_iter().find(|name| self.checkpoint.tensor(name).is_some());
        let tensor = stored.unwrap_or_else(|| key.to_owned());
        LoadError::Device {
            path: self.checkpoint.path_of(&tensor).to_owned(),
            tensor,
            cause: Box::new(cause),
        }
    }
}
