/* SPDX-License-Identifier: GPL-2.0 OR MIT
 * Where it has not. */
#define BY_PROBE_READ
#include "calls.h"
