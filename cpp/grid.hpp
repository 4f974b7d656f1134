// Division of the pairs into units of work: blocks of row panels times chunks of columns.
//
// The division follows from the problem alone, so that results, which are combined in the order of
// the units, do not depend on the number of threads.
#pragma once

#include <algorithm>

#include "data.hpp"

namespace mercer {

struct Unit {
  std::int64_t index;
  std::int64_t first_panel, end_panel;
  std::int64_t first_column, end_column;
};

struct Grid {
  std::int64_t panels, columns;
  std::int64_t block;  // row panels of a unit
  std::int64_t chunk;  // columns of a unit, a multiple of the tile width
  std::int64_t blocks, chunks;

  std::int64_t units() const { return blocks * chunks; }
  Unit unit(std::int64_t index) const {
    const std::int64_t panel = index / chunks * block, column = index % chunks * chunk;
    return {index, panel, std::min(panel + block, panels), column,
            std::min(column + chunk, columns)};
  }
};

// `row_bytes` is what a unit accumulates per panel; `max_blocks` bounds the number of row blocks.
// Few rows of many columns (`wide`) are worth several threads.
inline Grid make_grid(std::int64_t panels, std::int64_t panel_points, std::int64_t columns,
                      std::int64_t tile_width, std::int64_t row_bytes, std::int64_t max_blocks,
                      bool wide) {
  constexpr std::int64_t kPairsPerUnit = std::int64_t{1} << 20;
  constexpr std::int64_t kAccumulatorBytes = 256 * 1024;
  constexpr std::int64_t kWantedUnits = 64, kMinChunk = 4096;
  // Every tile of the other side is read from a slow cache once for each block.
  constexpr std::int64_t kMinBlock = 16, kMaxBlock = 64;
  // Blocks of half a symmetric matrix differ in size: threads need several to share them evenly.
  constexpr std::int64_t kWantedBlocks = 8;
  Grid grid{};
  grid.panels = panels;
  grid.columns = columns;
  // Enough pairs to make a unit worth its start, few enough that accumulators stay in cache.
  const std::int64_t max_block =
      wide ? divide_up(panels, 4) : std::max(kMinBlock, divide_up(panels, kWantedBlocks));
  grid.block = std::clamp<std::int64_t>(
      kPairsPerUnit / (panel_points * std::min(columns, kPairsPerUnit)), kMinBlock, kMaxBlock);
  grid.block = std::min(grid.block, max_block);
  grid.block = std::clamp<std::int64_t>(kAccumulatorBytes / std::max<std::int64_t>(row_bytes, 1), 1,
                                        grid.block);
  grid.block = std::max(grid.block, divide_up(panels, max_blocks));
  grid.blocks = divide_up(panels, grid.block);
  // Few rows: cut along the columns too.
  const std::int64_t chunks =
      std::clamp<std::int64_t>(kWantedUnits / grid.blocks, 1, divide_up(columns, kMinChunk));
  grid.chunk = round_up(divide_up(columns, chunks), tile_width);
  grid.chunks = divide_up(columns, grid.chunk);
  return grid;
}

}  // namespace mercer
