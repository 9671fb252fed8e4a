//! What the kernel frees as dropped and is no loss.

use super::cause::Cause;
use super::{Hook, Scene};
use crate::event::Tcp;
use crate::inventory::Inventory;
use crate::journey::{Direction, Journey, Loss};
use crate::packet::Proto;

/// Whether a drop is worth telling: neither a copy, nor a packet whose like demonstrably arrived.
#[must_use]
pub fn is_loss(loss: &Loss, journey: &Journey, inventory: &Inventory) -> bool {
    let scene = Scene::new(loss, journey, inventory);
    let cause = scene.cause();
    let reset = loss.first.print.tcp.is_some_and(|t| t.has(Tcp::RST));
    match cause {
        Cause::Copy => false,
        // An error message that reached the end of its way has done its work.
        Cause::Endpoint | Cause::NoListener if loss.first.quoted.is_some() || reset => false,
        Cause::Endpoint | Cause::OtherHost | Cause::Program(Hook::Socket) => !arrived(&scene),
        Cause::NoListener => loss.direction == Direction::Request || !arrived(&scene),
        _ => true,
    }
}

/// Whether what goes this way has been seen to arrive.
fn arrived(scene: &Scene<'_>) -> bool {
    let exchange = &scene.journey.exchange;
    let tcp = scene.journey.opened.proto == Proto::TCP;
    match scene.loss.direction {
        Direction::Request => exchange.reply_ns.is_some(),
        Direction::Reply if tcp => {
            exchange.handshake_arrived || exchange.reply_arrived || !exchange.opened
        }
        Direction::Reply => exchange.reply_ns.is_some(),
    }
}
