#include "shim/log.hpp"
