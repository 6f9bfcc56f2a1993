/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * Finds socket owners. Reading the sockets themselves is in another object (held.bpf.c), because every listing with
 * owners has to load this one.
 */
#include "holders.h"

char license_[] SEC("license") = "GPL";
