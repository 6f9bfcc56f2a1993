/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * Who holds which socket. The sockets themselves are told by another object (held.bpf.c), for to load this one is a
 * part of every listing with owners.
 */
#include "holders.h"

char license_[] SEC("license") = "GPL";
